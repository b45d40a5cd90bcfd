import * as Effect from "effect/Effect"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import { describeDatabase } from "../database/DatabasePlace.ts"
import { storeMaintenance } from "../database/storeMaintenance.ts"
import { answer, formatTime } from "../Output.ts"
import { readEnvironment } from "../readEnvironment.ts"

const dryRunFlag = Flag.Boolean("dry-run").pipe(
  Flag.withDescription("List pending migrations, without changing anything"),
  Flag.withDefault(false),
)

const lines = (heading: string, names: ReadonlyArray<string>): ReadonlyArray<string> =>
  names.length === 0 ? [] : [heading, ...names.map((name) => `  ${name}`)]

export const migrateCommand = Command.make("migrate", { dryRun: dryRunFlag }, ({ dryRun }) =>
  Effect.gen(function* () {
    const { database } = yield* readEnvironment
    const store = yield* storeMaintenance(database)
    const appliedNow = dryRun ? [] : yield* store.migrate
    const { applied, pending, unknown } = yield* store.migrationStatus
    const said = [
      ...lines("applied now:", appliedNow),
      ...lines(
        "pending:",
        pending.map(({ name }) => name),
      ),
      ...lines("applied by a newer version of kiln:", unknown),
    ]
    yield* answer({
      json: {
        dry_run: dryRun,
        applied_now: appliedNow,
        applied: applied.map(({ appliedAt, name }) => ({ name, applied_at: formatTime(appliedAt) })),
        pending: pending.map(({ name, sql }) => ({ name, sql })),
        unknown,
      },
      text: [
        ...said,
        ...(appliedNow.length + pending.length === 0 ? [`${describeDatabase(database)} is up to date`] : []),
      ].join("\n"),
    })
  }),
).pipe(
  Command.withDescription(
    "Bring the database's schema up to date; `kiln serve` does so automatically if its user is allowed to",
  ),
)
