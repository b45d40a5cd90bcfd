import * as Effect from "effect/Effect"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import { JobEvents, EngineConfig, type EngineSettings, retentionPeriods } from "@kiln/core/effect"
import { JobKinds } from "@kiln/core/kinds"
import { BlobGuard, pruneAndReport } from "@kiln/core/worker"
import type { DueRetention } from "@kiln/core/ports"
import { failed } from "../CommandFailed.ts"
import { databaseProblem } from "../database/databaseProblem.ts"
import { storeMaintenance } from "../database/storeMaintenance.ts"
import { claimBlobStore } from "../installation/claimBlobStore.ts"
import { engineSettings } from "../KilnConfig.ts"
import { loadConfig } from "../loadModule.ts"
import { requireDatabase } from "../database/requireDatabase.ts"
import { answer, formatTable } from "../Output.ts"
import { readEnvironment } from "../readEnvironment.ts"
import { appendChange } from "../recordChange.ts"
import type { Settings } from "../Settings.ts"
import { withBlobs } from "../withBlobs.ts"

const flags = {
  dryRun: Flag.Boolean("dry-run").pipe(
    Flag.withDescription("Count what would be removed, without removing anything"),
    Flag.withDefault(false),
  ),
}

const days = (ms: number): string =>
  ms === 0 ? "kept indefinitely" : `after ${Number((ms / 86_400_000).toFixed(2))} d`

const tableOf = (
  { deletedJobs, deletedUploads, expiredData, expiredUploads }: Omit<DueRetention, "bytes">,
  { dataRetentionMs, jobRetentionMs }: Pick<EngineSettings, "dataRetentionMs" | "jobRetentionMs">,
): string =>
  formatTable(
    ["RETENTION", "PERIOD", "COUNT"],
    [
      ["data of finished jobs", days(dataRetentionMs), String(expiredData)],
      ["records of finished jobs", days(jobRetentionMs), String(deletedJobs)],
      ["unused uploads", "when they expire", String(expiredUploads)],
      ["records of unused uploads", days(jobRetentionMs), String(deletedUploads)],
    ],
    "",
  )

const countsOf = ({ deletedJobs, deletedUploads, expiredData, expiredUploads }: Omit<DueRetention, "bytes">) => ({
  expired_data: expiredData,
  deleted_jobs: deletedJobs,
  expired_uploads: expiredUploads,
  deleted_uploads: deletedUploads,
})

/** Counts what is due by the effective settings. Opens the store only for reading. */
const survey = Effect.fnUntraced(function* ({ database, ...settings }: Settings) {
  const periods = engineSettings(yield* loadConfig(settings.configPath), settings.engine)
  const store = yield* (yield* storeMaintenance(database)).inspect
  if (store === undefined) return yield* failed("the database has no kiln schema yet: kiln serve creates it")
  const due = yield* store.dueRetention(retentionPeriods(periods, yield* JobKinds))
  return { due, purges: (yield* store.duePurges).count, periods }
})

const explained = (settings: Settings) =>
  Effect.scoped(survey(settings)).pipe(
    Effect.catchTag("StoreUnavailable", (error) => Effect.fail(databaseProblem(settings.database, error.cause))),
  )

const dryRun = Effect.gen(function* () {
  const settings = yield* readEnvironment
  yield* requireDatabase(settings.database)
  const { due, periods, purges } = yield* explained(settings)
  yield* answer({
    json: { dry_run: true, ...countsOf(due), bytes: due.bytes, purges },
    text: `${tableOf(due, periods)}\n\n${due.bytes} bytes of files; ${purges} earlier removals to retry; nothing was removed (--dry-run)`,
  })
})

const run = withBlobs((settings) =>
  Effect.gen(function* () {
    const { due } = yield* explained(settings)
    yield* claimBlobStore
    yield* (yield* BlobGuard).join
    yield* appendChange("retention.run", null, countsOf(due))
    const pruned = yield* Effect.provide(pruneAndReport, JobEvents.layer)
    yield* answer({
      json: { dry_run: false, ...countsOf(pruned), bytes: due.bytes, purges: pruned.purges },
      text: `${tableOf(pruned, yield* EngineConfig)}\n\nremoved, with ${due.bytes} bytes of files and ${pruned.purges} earlier removals`,
    })
  }),
)

const runCommand = Command.make("run", flags, (given) => (given.dryRun ? dryRun : run)).pipe(
  Command.withDescription(
    "Remove data and records past KILN_DATA_RETENTION and KILN_JOB_RETENTION now; every server also does this within minutes",
  ),
)

export const retentionCommand = Command.make("retention").pipe(
  Command.withDescription("Remove data and records past their retention"),
  Command.withSubcommands([runCommand]),
)
