import { copyFileSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import { inspectSqlite, SqliteStores } from "@kiln/adapter-sqlite"
import type { BlobUnavailable, StoreUnavailable } from "@kiln/core/domain"
import { BlobStore, JobDirectory, KeyDirectory, type StoreInspection, Switchboard } from "@kiln/core/ports"
import { listSigningKeys } from "@kiln/http"
import { causeMessage, type CommandFailed, failed } from "../CommandFailed.ts"
import { type Check, counted, ok, problem } from "../doctor/Check.ts"
import { checkBlobs } from "../doctor/checkBlobs.ts"
import { sizeOf } from "../Output.ts"
import { blobListFile, databaseFile, type Generation, readBlobKeys, sha256Of } from "./BackupDirectory.ts"
import { openBlobsIn } from "./takeBackup.ts"

type Looked = Effect.Effect<Check, CommandFailed | StoreUnavailable | BlobUnavailable>
type Failure = CommandFailed | StoreUnavailable | BlobUnavailable

const another = "restore another backup with --backup, and make a new one with kiln backup"

/** A week. Unlike the doctor's, this check is complete or fails. */
const limitMs = 604_800_000

const failedCheck = (name: string, error: Failure): Check =>
  problem(name, {
    summary: error._tag === "CommandFailed" ? error.message : causeMessage(error.cause),
    remedy: another,
  })

/** Turns a failure of a check into its finding. */
const orProblem = (name: string, look: Looked): Effect.Effect<Check> =>
  look.pipe(Effect.catch((error) => Effect.succeed(failedCheck(name, error))))

/** Compares database and list with the checksums of the manifest. */
const checkFiles = (directory: string, generation: Generation): Looked =>
  Effect.gen(function* () {
    const { manifest, path } = generation
    const sum = yield* sha256Of(directory, join(path, databaseFile))
    if (sum !== manifest.database.sha256)
      return problem("checksums", {
        summary: `${databaseFile} of ${generation.name} is damaged: its SHA-256 differs`,
        remedy: another,
      })
    const keys = yield* readBlobKeys(directory, generation)
    return keys.length === manifest.blobs.count
      ? ok("checksums", `${databaseFile} and ${blobListFile} match the manifest`)
      : problem("checksums", {
          summary: `${blobListFile} has ${keys.length} of ${manifest.blobs.count} files`,
          remedy: another,
        })
  })

/** Checks the files. The doctor's remedy is a backup, but this is one. */
const checkPool = Effect.fnUntraced(function* (directory: string, store: StoreInspection, { manifest }: Generation) {
  const check = yield* checkBlobs(store, limitMs).pipe(Effect.provideService(BlobStore, yield* openBlobsIn(directory)))
  if (check.status !== "problem") return check
  const { unusable } = manifest.blobs
  const known =
    unusable.length === 0 ? "" : `; ${counted(unusable.length, "file")} was unusable when the backup was made`
  return {
    ...check,
    summary: `${check.summary}${known}`,
    remedy:
      `remove these files from ${join(directory, "blobs")}, where the key jobs/ID/1/audio is jobs/shard-*/ID.1.audio.blob, ` +
      "or jobs/ID/1/audio.blob from an older version, and run kiln backup, which copies them again",
  }
})

/** Checks the database in place, and every file that it names. */
const checkRecords = (directory: string, generation: Generation) =>
  Effect.gen(function* () {
    const store = yield* inspectSqlite({ path: join(generation.path, databaseFile) })
    if (store === undefined) return yield* failed(`the backup has no ${databaseFile}`)
    const damage = yield* store.damage
    return [
      damage.length === 0
        ? ok("integrity", "no damage found")
        : problem("integrity", {
            summary: "the database in the backup is damaged",
            remedy: another,
            findings: damage.map((message) => ({ message })),
          }),
      yield* checkPool(directory, store, generation),
    ]
  }).pipe(
    Effect.scoped,
    Effect.catch((error) => Effect.succeed([failedCheck("integrity", error)])),
  )

/** Copies the database into a directory for temporary files, while the scope is open. */
const scratchCopy = ({ path }: Generation) =>
  Effect.gen(function* () {
    const scratch = yield* Effect.acquireRelease(
      Effect.try(() => mkdtempSync(join(tmpdir(), "kiln-restore-"))),
      (made) => Effect.sync(() => rmSync(made, { recursive: true, force: true })),
    )
    const copy = join(scratch, databaseFile)
    yield* Effect.try(() => copyFileSync(join(path, databaseFile), copy))
    return copy
  })

/** Opens a scratch copy as a server does, and reads through every port. */
const checkOpening = (generation: Generation): Looked =>
  Effect.scoped(
    Effect.gen(function* () {
      const copied = yield* Effect.result(scratchCopy(generation))
      // The checksum was read before, so the backup is not the reason.
      if (Result.isFailure(copied))
        return problem("opening", {
          summary: `not checked, because the database cannot be copied to ${tmpdir()}: ${causeMessage(copied.failure.cause)}`,
          remedy: `set TMPDIR to a directory with room for ${sizeOf(generation.manifest.database.bytes)}, and check again`,
        })
      const copy = copied.success
      return yield* Effect.gen(function* () {
        const { jobs } = yield* (yield* JobDirectory).listJobs({ limit: 100 })
        yield* (yield* JobDirectory).readJobs(jobs.map(({ id }) => id))
        const keys = yield* (yield* KeyDirectory).listKeys
        yield* (yield* Switchboard).readBoard
        const signing = yield* listSigningKeys(undefined)
        return ok(
          "opening",
          `kiln opens it: ${counted(keys.length, "API key")}, ${counted(signing.length, "signing key")}, newest jobs readable`,
        )
      }).pipe(
        Effect.provide(Layer.fresh(SqliteStores.layer({ path: copy }))),
        Effect.catchTag("HttpSettingInvalid", (error) => Effect.fail(failed(`the signing keys ${error.problem}`))),
        Effect.catchDefect((defect) => Effect.fail(failed(`kiln cannot read it: ${causeMessage(defect)}`))),
      )
    }),
  )

const age = (createdAt: string, now: number): number => Math.max(0, now - Date.parse(createdAt))

const hours = (ms: number): string => `${(ms / 3_600_000).toFixed(1)} hours`

/** Checks everything that a restore of this generation needs. */
export const checkBackup = Effect.fnUntraced(function* (
  directory: string,
  generation: Generation,
  { maxAgeMs, now }: { readonly maxAgeMs: number | undefined; readonly now: number },
) {
  const { created_at: createdAt } = generation.manifest
  const ageMs = age(createdAt, now)
  const isOld = maxAgeMs !== undefined && ageMs > maxAgeMs
  const files = yield* orProblem("checksums", checkFiles(directory, generation))
  // A damaged database may make every other check fail in a misleading way.
  const rest =
    files.status === "problem"
      ? []
      : [...(yield* checkRecords(directory, generation)), yield* orProblem("opening", checkOpening(generation))]
  const checks = [
    isOld
      ? problem("age", {
          summary: `${generation.name} is ${hours(ageMs)} old, more than ${hours(maxAgeMs)}`,
          remedy: "find out why kiln backup did not run or failed",
        })
      : ok("age", `${generation.name} is ${hours(ageMs)} old`),
    files,
    ...rest,
  ]
  return { ageMs, checks }
})
