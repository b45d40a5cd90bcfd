import * as Effect from "effect/Effect"
import * as Command from "effect/cli/Command"
import { adoptBlobs } from "@kiln/core/worker"
import { describeDatabase } from "../database/DatabasePlace.ts"
import { claimBlobStore } from "../installation/claimBlobStore.ts"
import { describeBlobs } from "../layerBlobs.ts"
import { answer } from "../Output.ts"
import { appendChange } from "../recordChange.ts"
import { withBlobs } from "../withBlobs.ts"

export const blobsAdoptCommand = Command.make("adopt", {}, () =>
  withBlobs((settings) =>
    Effect.gen(function* () {
      yield* claimBlobStore
      const { entries, generation } = yield* adoptBlobs
      if (entries.length > 0) yield* appendChange("blobs.adopt", null, { generation, entries: entries.length })
      const [database, blobs] = [describeDatabase(settings.database), describeBlobs(settings)]
      yield* answer({
        json: { generation, adopted: entries },
        text:
          entries.length === 0
            ? `${database} is not behind ${blobs}: there is nothing to adopt`
            : `${database} now owns ${blobs} (generation ${generation}). Other copies of it can no longer start on these blobs. ` +
              "Existing files are kept, including files without a record.",
      })
    }),
  ),
).pipe(
  Command.withDescription(
    "Continue with this database although another copy of it has used these blobs since; removes no files",
  ),
)
