import * as Effect from "effect/Effect"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import { adoptCopy, copyStanding, eraseHereToo, findErasedElsewhere } from "@kiln/core/worker"
import { failed, misused } from "../CommandFailed.ts"
import { describeDatabase } from "../database/DatabasePlace.ts"
import { claimAnyBlobStore } from "../installation/claimBlobStore.ts"
import { describeBlobs } from "../layerBlobs.ts"
import { answer } from "../Output.ts"
import { recordChange } from "../recordChange.ts"
import type { Settings } from "../Settings.ts"
import { withAnyBlobs } from "../withBlobs.ts"

const flags = {
  moved: Flag.Boolean("moved").pipe(
    Flag.withDescription("The original was not used after this copy was made, and never will be: all jobs continue"),
    Flag.withDefault(false),
  ),
  restored: Flag.Boolean("restored").pipe(
    Flag.withDescription(
      "The original was used after this copy was made: unfinished live jobs are canceled and due ticks of schedules skipped, because it may have run and charged them, and data whose files it has deleted is deleted",
    ),
    Flag.withDefault(false),
  ),
  force: Flag.Boolean("force").pipe(
    Flag.withDescription("Delete the data of jobs with missing files even if they are more than 10 % of all"),
    Flag.withDefault(false),
  ),
}

/** As for sweeps: so many missing files are rather a wrong blob store. */
const maxShare = 0.1
const alwaysAllowed = 100

/** Erases what the original has erased. Records alone cannot tell, but missing files do. */
const eraseMissing = Effect.fnUntraced(function* (settings: Settings, force: boolean) {
  const { found, kept } = yield* findErasedElsewhere
  if (!force && found.length > Math.max(alwaysAllowed, maxShare * kept))
    return yield* failed(
      `${found.length} of ${kept} jobs with data have files that are missing from ${describeBlobs(settings)}: check KILN_BLOBS and KILN_DATA_DIR. ` +
        "To delete the data of these jobs and continue, add --force; nothing was changed",
    )
  yield* eraseHereToo(found)
  return found.length
})

export const adoptCommand = Command.make("adopt", flags, ({ force, moved, restored }) =>
  withAnyBlobs((settings) =>
    Effect.gen(function* () {
      if (moved === restored) return yield* misused("kiln adopt needs either --moved or --restored (see --help)")
      const { entries: foreign, isCopy } = yield* copyStanding
      const database = describeDatabase(settings.database)
      if (!isCopy && foreign.length === 0) {
        const json = { adopted: false, canceled_jobs: 0, erased_jobs: 0, skipped_schedules: 0, entries: [] }
        return yield* answer({ json, text: `${database} is not a copy: there is nothing to adopt` })
      }
      // Another copy has written to these blobs, so it was in use.
      if (moved && foreign.length > 0)
        return yield* failed(
          `another copy of ${database} has used ${describeBlobs(settings)} after this copy was made: run kiln adopt --restored`,
        )
      yield* claimAnyBlobStore
      const erased = restored ? yield* eraseMissing(settings, force) : 0
      const { canceled, entries, skipped } = yield* adoptCopy(restored ? "cancel" : "keep", (step, adoption) =>
        step.pipe(
          recordChange({
            action: "database.adopt",
            subject: null,
            details: {
              as: restored ? "restored" : "moved",
              canceled_jobs: adoption.canceled,
              erased_jobs: erased,
              skipped_schedules: adoption.skipped,
            },
          }),
        ),
      )
      yield* answer({
        json: { adopted: true, canceled_jobs: canceled, erased_jobs: erased, skipped_schedules: skipped, entries },
        text: [
          `${database} is adopted: kiln serve starts on it. Never start kiln on the original again.`,
          ...(restored
            ? [
                `${canceled} unfinished live jobs were canceled, and the data of ${erased} jobs whose files were deleted was deleted. Other files are kept, including files without a record.`,
                ...(skipped === 0
                  ? []
                  : [`${skipped} schedules continue with their next tick; ticks until now get no job here.`]),
              ]
            : []),
        ].join("\n"),
      })
    }),
  ),
).pipe(
  Command.withDescription(
    "Continue with a copy of the database: one that was moved to another place, or restored from a backup",
  ),
)
