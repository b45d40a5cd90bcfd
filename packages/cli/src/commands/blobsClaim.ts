import * as Effect from "effect/Effect"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import { BlobStore } from "@kiln/core/ports"
import { copyFiles } from "../blobs/copyFiles.ts"
import { failed } from "../CommandFailed.ts"
import { storeMaintenance } from "../database/storeMaintenance.ts"
import { counted } from "../doctor/Check.ts"
import { claimAnyBlobStore } from "../installation/claimBlobStore.ts"
import { describeBlobs } from "../layerBlobs.ts"
import { answer } from "../Output.ts"
import { appendChange } from "../recordChange.ts"
import { withBlobs } from "../withBlobs.ts"

const flags = {
  force: Flag.Boolean("force").pipe(
    Flag.withDescription("Claim the blob store although files are missing or damaged there"),
    Flag.withDefault(false),
  ),
}

export const blobsClaimCommand = Command.make("claim", flags, ({ force }) =>
  withBlobs((settings) =>
    Effect.gen(function* () {
      const records = yield* (yield* storeMaintenance(settings.database)).inspect
      if (records === undefined) return yield* failed("the database has vanished")
      const blobs = yield* BlobStore
      // Every file is there, or cannot be copied from the same store.
      const { damaged, failed: lost, files, missing } = yield* copyFiles(records, blobs, blobs)
      if (lost > 0 && !force)
        return yield* failed(
          `${describeBlobs(settings)} lacks ${counted(lost, "file")} of the ${files + lost} that the database names, such as ${missing[0] ?? damaged[0] ?? ""}: ` +
            "check KILN_BLOBS and KILN_DATA_DIR. To use it anyway, add --force; nothing was changed",
        )
      yield* claimAnyBlobStore
      yield* appendChange("blobs.claim", describeBlobs(settings), { files, lost })
      yield* answer({
        json: { files, missing_files: missing, damaged_files: damaged },
        text: `${describeBlobs(settings)} is claimed: kiln serve starts on it. It has ${counted(files, "file")}${lost === 0 ? "" : `, and ${lost} are missing or damaged`}`,
      })
    }).pipe(Effect.scoped),
  ),
).pipe(
  Command.withDescription(
    "Let kiln start on the blob store that KILN_BLOBS names although it has no marker of this installation, after the files were copied there by other means",
  ),
)
