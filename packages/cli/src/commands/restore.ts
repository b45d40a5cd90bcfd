import { resolve } from "node:path"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import { causeMessage, failed, misused } from "../CommandFailed.ts"
import type { Check } from "../doctor/Check.ts"
import { checkDocument, checkLine } from "../doctor/checkReport.ts"
import { answer } from "../Output.ts"
import { duration } from "../settings/SettingType.ts"

const flags = {
  directory: Argument.String("DIR").pipe(Argument.withDescription("The directory that kiln backup writes to")),
  to: Flag.String("to").pipe(
    Flag.withMetavar("DATA_DIR"),
    Flag.withDescription("The new data directory to restore into; it must be empty or not exist"),
    Flag.optional,
  ),
  check: Flag.Boolean("check").pipe(
    Flag.withDescription("Only check that the backup could be restored; exits with 1 if not"),
    Flag.withDefault(false),
  ),
  backup: Flag.String("backup").pipe(
    Flag.withMetavar("NAME"),
    Flag.withDescription("The backup to use, such as 20261123T031500000Z; by default the newest"),
    Flag.optional,
  ),
  maxAge: Flag.String("max-age").pipe(
    Flag.withMetavar("DURATION"),
    Flag.withDescription("With --check: fail if the backup is older, for example 26h"),
    Flag.optional,
  ),
}

const load = Effect.tryPromise({
  try: async () => ({
    ...(await import("../backup/BackupDirectory.ts")),
    ...(await import("../backup/checkBackup.ts")),
    ...(await import("../backup/restoreBackup.ts")),
  }),
  catch: (cause) => failed(`cannot load the restore: ${String(cause)}`),
})

const maxAgeOf = Effect.fnUntraced(function* (text: Option.Option<string>) {
  if (Option.isNone(text)) return undefined
  const parsed = duration(text.value)
  return parsed.ok ? parsed.value : yield* misused(`--max-age ${parsed.rule}`)
})

const check = Effect.fnUntraced(function* (directory: string, name: string | undefined, maxAgeMs: number | undefined) {
  const { checkBackup, findGeneration } = yield* load
  const { found } = yield* findGeneration(directory, name)
  const now = yield* Clock.currentTimeMillis
  const { ageMs, checks } = yield* checkBackup(directory, found, { maxAgeMs, now })
  const wrong = checks.filter(({ status }: Check) => status === "problem")
  const { blobs, created_at, database, kiln } = found.manifest
  yield* answer({
    json: {
      ok: wrong.length === 0,
      backup: found.name,
      created_at,
      age_seconds: Math.round(ageMs / 1_000),
      kiln,
      counts: database.counts,
      files: blobs.count,
      bytes: blobs.bytes,
      checks: checks.map(checkDocument),
    },
    text: [
      ...checks.map(checkLine),
      "",
      `${found.name}: ${Object.entries(database.counts)
        .map(([table, count]) => `${count} ${table}`)
        .join(", ")}; ${blobs.count} files, ${blobs.bytes} bytes`,
    ].join("\n"),
  })
  if (wrong.length > 0)
    return yield* failed(`the backup cannot be relied on: ${wrong.map((problem) => problem.name).join(", ")}`)
})

const restore = Effect.fnUntraced(function* (directory: string, name: string | undefined, to: string) {
  const { explainFullDisk, findGeneration, restoreBackup } = yield* load
  const generations = yield* findGeneration(directory, name)
  const { copies, erased } = yield* restoreBackup(directory, generations, to).pipe(explainFullDisk(to))
  yield* answer({
    json: {
      backup: generations.found.name,
      data_directory: to,
      files: copies.listed.length,
      bytes: copies.bytes,
      missing_files: copies.failed.map(({ named }) => named.blobKey),
      erased_jobs: erased,
    },
    text: [
      `restored ${generations.found.name} into ${to}: ${copies.listed.length} files`,
      ...(erased === 0 ? [] : [`the data of ${erased} jobs was deleted, because it was deleted after this backup`]),
      "Before it can be used, stop every process on the original, and run:",
      "",
      `  KILN_DATA_DIR=${to} kiln adopt --restored`,
      "",
      "This cancels unfinished live jobs, because the original may have run and charged them after the backup.",
    ].join("\n"),
  })
  if (copies.failed.length > 0)
    return yield* failed(
      `${copies.failed.length} files are missing from the backup or damaged; all others were restored`,
    )
})

export const restoreCommand = Command.make("restore", flags, (given) =>
  Effect.gen(function* () {
    const directory = resolve(given.directory)
    const name = Option.getOrUndefined(given.backup)
    const maxAgeMs = yield* maxAgeOf(given.maxAge)
    if (given.check === Option.isSome(given.to))
      return yield* misused("kiln restore needs either --check or --to DATA_DIR (see --help)")
    if (maxAgeMs !== undefined && !given.check) return yield* misused("--max-age belongs to --check")
    yield* Option.isSome(given.to)
      ? restore(directory, name, resolve(given.to.value))
      : check(directory, name, maxAgeMs)
  }).pipe(
    Effect.catchTags({
      StoreUnavailable: (error) => Effect.fail(failed(`cannot use the database: ${causeMessage(error.cause)}`)),
      BlobUnavailable: (error) => Effect.fail(failed(`cannot use the files: ${causeMessage(error.cause)}`)),
    }),
  ),
).pipe(
  Command.withDescription("Restore a backup into a new data directory, or check that one could be restored"),
  Command.withExamples([
    { command: "kiln restore /mnt/backup/kiln --check --max-age 26h", description: "Every night, after the backup" },
    { command: "kiln restore /mnt/backup/kiln --to /srv/kiln-restored" },
  ]),
)
