import * as Effect from "effect/Effect"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import { JobEvents, retentionPublication } from "@kiln/core/effect"
import { JobKinds } from "@kiln/core/kinds"
import { BlobGuard, pruneAndReport } from "@kiln/core/worker"
import {
  type DueRetention,
  isReplaced,
  periodsOf,
  type RetentionRule,
  ruleOfUploads,
  rulesInForce,
} from "@kiln/core/ports"
import { causeMessage, failed } from "../CommandFailed.ts"
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
import { periodText, setCommand, showCommand } from "./retentionRules.ts"

const flags = {
  dryRun: Flag.Boolean("dry-run").pipe(
    Flag.withDescription("Count what would be removed, without removing anything"),
    Flag.withDefault(false),
  ),
}

/** The period of all kinds, or a reference to the list of them. */
const periodOf = (rules: ReadonlyArray<RetentionRule>, period: "dataMs" | "jobsMs"): string => {
  const [only, ...others] = new Set(rules.filter(({ kind }) => kind !== ruleOfUploads).map((rule) => rule[period]))
  return only === undefined || others.length > 0 ? "by type" : periodText(only)
}

const tableOf = (
  { deletedJobs, deletedUploads, expiredData, expiredUploads }: Omit<DueRetention, "bytes">,
  rules: ReadonlyArray<RetentionRule>,
): string =>
  formatTable(
    ["RETENTION", "PERIOD", "COUNT"],
    [
      ["data of finished jobs", periodOf(rules, "dataMs"), String(expiredData)],
      ["records of finished jobs", periodOf(rules, "jobsMs"), String(deletedJobs)],
      ["unused uploads", "when they expire", String(expiredUploads)],
      [
        "records of unused uploads",
        periodText(rules.find(({ kind }) => kind === ruleOfUploads)?.jobsMs ?? null),
        String(deletedUploads),
      ],
    ],
    "",
  )

const countsOf = ({ deletedJobs, deletedUploads, expiredData, expiredUploads }: Omit<DueRetention, "bytes">) => ({
  expired_data: expiredData,
  deleted_jobs: deletedJobs,
  expired_uploads: expiredUploads,
  deleted_uploads: deletedUploads,
})

/** Counts what is due by the rules that will be in force once this command has published its own. Opens the store only for reading. */
const survey = Effect.fnUntraced(function* ({ database, ...settings }: Settings) {
  const engine = engineSettings(yield* loadConfig(settings.configPath), settings.engine)
  const store = yield* (yield* storeMaintenance(database)).inspect
  if (store === undefined) return yield* failed("the database has no kiln schema yet: kiln serve creates it")
  const publication = retentionPublication(engine, yield* JobKinds, "once")
  const staying = (yield* store.readRetention).filter(
    (rule) => rule.publisher !== publication.publisher && !isReplaced(rule, publication),
  )
  const rules = rulesInForce([...staying, ...publication.rules])
  const due = yield* store.dueRetention(periodsOf(rules))
  return { due, purges: (yield* store.duePurges).count, rules }
})

const explained = (settings: Settings) =>
  Effect.scoped(survey(settings)).pipe(
    Effect.catchTag("StoreUnavailable", (error) => Effect.fail(databaseProblem(settings.database, error.cause))),
  )

const dryRun = Effect.gen(function* () {
  const settings = yield* readEnvironment
  yield* requireDatabase(settings.database)
  const { due, purges, rules } = yield* explained(settings)
  yield* answer({
    json: { dry_run: true, ...countsOf(due), bytes: due.bytes, purges },
    text: `${tableOf(due, rules)}\n\n${due.bytes} bytes of files; ${purges} earlier removals to retry; nothing was removed (--dry-run)`,
  })
})

const run = withBlobs((settings) =>
  Effect.gen(function* () {
    const { due, rules } = yield* explained(settings)
    yield* claimBlobStore
    yield* (yield* BlobGuard).join
    yield* appendChange("retention.run", null, countsOf(due))
    const { failure, ...pruned } = yield* Effect.provide(pruneAndReport, JobEvents.layer)
    yield* answer({
      json: { dry_run: false, ...countsOf(pruned), bytes: due.bytes, purges: pruned.purges },
      text: `${tableOf(pruned, rules)}\n\nremoved, with ${due.bytes} bytes of files and ${pruned.purges} earlier removals`,
    })
    if (failure !== undefined)
      return yield* failed(
        `the blob store could not remove all files (${causeMessage(failure.cause)}): they stay recorded, and every server tries again within an hour`,
      )
  }),
)

const runCommand = Command.make("run", flags, (given) => (given.dryRun ? dryRun : run)).pipe(
  Command.withDescription(
    "Remove data and records past their retention now, as kiln retention show lists it; every server also does this within minutes",
  ),
)

export const retentionCommand = Command.make("retention").pipe(
  Command.withDescription("Show how long jobs are kept, and remove data and records past their retention"),
  Command.withSubcommands([runCommand, showCommand, setCommand]),
)
