import * as Effect from "effect/Effect"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import { type CommandFailed, failed, misused } from "../CommandFailed.ts"
import { describeDatabase, type PostgresPlace } from "../database/DatabasePlace.ts"
import { answer, formatTable } from "../Output.ts"
import { databaseSchema, postgresUrl } from "../settings/database.ts"
import { broken, parsed, type SettingType } from "../settings/SettingType.ts"
import { resolve } from "node:path"

const flags = {
  from: Flag.String("from").pipe(
    Flag.withMetavar("sqlite:PATH"),
    Flag.withDescription("The database to copy; no kiln process may be running on it"),
  ),
  to: Flag.String("to").pipe(
    Flag.withMetavar("postgres://…"),
    Flag.withDescription("The Postgres database to copy into; its password may come from PGPASSWORD"),
  ),
  schema: Flag.String("schema").pipe(
    Flag.withDescription("The schema to copy into; it must be empty"),
    Flag.withDefault("kiln"),
  ),
  dryRun: Flag.Boolean("dry-run").pipe(
    Flag.withDescription("Show what would be copied, without changing anything"),
    Flag.withDefault(false),
  ),
}

const read = <A>(flag: string, type: SettingType<A>, text: string): Effect.Effect<A, CommandFailed> => {
  const value = type(text)
  return value.ok ? Effect.succeed(value.value) : Effect.fail(misused(`--${flag} ${value.rule}`))
}

const advice = (to: PostgresPlace, retired: string): string =>
  [
    `copied all records into ${describeDatabase(to)} and verified the counts; the old database is now ${retired}`,
    "The blobs stay where they are: leave KILN_BLOBS and KILN_DATA_DIR as they were, set DATABASE_URL" +
      `${to.schema === "kiln" ? "" : ` and KILN_DATABASE_SCHEMA=${to.schema}`}, and start kiln.`,
  ].join("\n")

export const copyCommand = Command.make("copy", flags, ({ dryRun, ...flag }) =>
  Effect.gen(function* () {
    const path = yield* read("from", sqliteFile, flag.from)
    const url = yield* read("to", postgresUrl, flag.to)
    const schema = yield* read("schema", databaseSchema, flag.schema)
    const { copyRecords, countRecords, refuseRetiredBefore, retireSource } = yield* Effect.tryPromise({
      try: () => import("../copy/copyRecords.ts"),
      catch: (cause) => failed(`cannot load the copier: ${String(cause)}`),
    })
    const route = {
      from: { _tag: "Sqlite", path },
      to: { _tag: "Postgres", url, schema, poolSize: 2, notifications: false, pooler: "none" },
    } as const
    yield* refuseRetiredBefore(path)
    const counts = dryRun ? yield* countRecords(route) : yield* copyRecords(route)
    const retired = dryRun ? undefined : yield* retireSource(path)
    const table = formatTable(
      ["TABLE", "ROWS"],
      counts.map(({ count, table: name }) => [name, String(count)]),
      "",
    )
    yield* answer({
      json: {
        dry_run: dryRun,
        tables: Object.fromEntries(counts.map(({ count, table: name }) => [name, count])),
        source_moved_to: retired ?? null,
      },
      text: `${table}\n\n${retired === undefined ? "nothing was copied (--dry-run)" : advice(route.to, retired)}`,
    })
  }),
).pipe(
  Command.withDescription("Move all records of an installation from SQLite to Postgres; its blobs stay where they are"),
)

/** Parses a SQLite file in commands: `sqlite:data/kiln.db`. Returns the absolute path. */
const sqliteFile: SettingType<string> = (text) => {
  const [, path = ""] = /^sqlite:(?:\/\/(?=\/))?(.*)$/s.exec(text) ?? []
  return path === ""
    ? broken("must be sqlite: and the path of the database file, like sqlite:./data/kiln.db")
    : parsed(resolve(path))
}
