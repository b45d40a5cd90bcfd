import { chmodSync, copyFileSync, existsSync, mkdtempSync, readdirSync, renameSync, rmSync, statSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { inspectSqlite, makeDirectory, SqliteStores } from "@kiln/adapter-sqlite"
import type { Job } from "@kiln/core/domain"
import { JobDirectory, JobStore } from "@kiln/core/ports"
import { failed } from "../CommandFailed.ts"
import { isWithin, realPathOf } from "../installation/findInstallation.ts"
import { writeMarker } from "../installation/claimBlobStore.ts"
import { markerRoot } from "../installation/markers.ts"
import { databaseFile, type Generation, onFiles, sha256Of, syncDirectory } from "./BackupDirectory.ts"
import { copyNamedBlobs } from "../blobs/copyBlobs.ts"
import { openBlobsIn } from "./takeBackup.ts"

const batchSize = 100
/** The restored database has this name until everything else is there, so an incomplete installation is never started. */
const unfinishedFile = `${databaseFile}.restoring`

/** Entries that a restore creates. */
const layout = new Set(["blobs", "tmp", ...["", "-wal", "-shm", "-journal"].map((end) => unfinishedFile + end)])

/** Returns why this is not a directory in which a restore was killed, and nothing else happened since. */
const objectionTo = (to: string, names: ReadonlyArray<string>, installation: string): string | undefined => {
  const other = names.find((name) => !layout.has(name))
  if (other !== undefined) return `it contains ${other}`
  if (existsSync(join(to, "blobs/lineage"))) return "an installation has used it since"
  const markers = join(to, "blobs", markerRoot)
  const foreign = existsSync(markers) ? readdirSync(markers).find((name) => name !== `${installation}.blob`) : undefined
  return foreign === undefined ? undefined : "it contains the files of another installation"
}

/** Prepares an empty directory. One in which a restore was killed is emptied first. */
const prepareTarget = (directory: string, to: string, installation: string) =>
  Effect.gen(function* () {
    if (isWithin(realPathOf(directory), realPathOf(to)))
      return yield* failed(`${to} is inside the backup ${directory}: restore into a directory outside of it`)
    const names = yield* onFiles(to, () =>
      existsSync(to) ? readdirSync(to).filter((name) => name !== "lost+found") : [],
    )
    if (names.length > 0) {
      const objection = names.includes(unfinishedFile)
        ? yield* onFiles(to, () => objectionTo(to, names, installation))
        : ""
      if (objection !== undefined)
        return yield* failed(
          `${to} is not empty: ${objection === "" ? "" : `a restore was interrupted there, but ${objection}; `}restore into a new directory, or move its contents away`,
        )
    }
    yield* onFiles(to, () => {
      // The unfinished database is last, because only with it may the rest be removed.
      for (const name of [...names.filter((other) => other !== unfinishedFile), unfinishedFile])
        rmSync(join(to, name), { recursive: true, force: true })
      makeDirectory(to)
    })
  })

const copyPrivately = (from: string, to: string) =>
  onFiles(to, () => {
    copyFileSync(from, to)
    chmodSync(to, 0o600)
  })

const openRecords = (path: string) =>
  Effect.map(Layer.build(Layer.fresh(SqliteStores.layer({ path }))), (built) => ({
    directory: Context.get(built, JobDirectory),
    store: Context.get(built, JobStore),
  }))

type Records = Effect.Success<ReturnType<typeof openRecords>>

/** Erases the data of finished jobs that the newer records no longer have. Returns their number. */
const eraseAsIn = Effect.fnUntraced(function* (restored: Records, newer: Records) {
  let erased = 0
  let after: string | undefined
  do {
    const page = yield* restored.directory.listJobs({ limit: batchSize, after })
    const kept = page.jobs.filter(({ finishedAt, retained }) => finishedAt !== null && retained === "kept")
    const now: ReadonlyArray<Job | undefined> =
      kept.length === 0 ? [] : yield* newer.directory.readJobs(kept.map(({ id }) => id))
    const gone = kept.filter((_, index) => now[index]?.retained !== "kept")
    const outcomes = yield* restored.store.eraseJobs(
      gone.map(({ id, keyId, mode, projectId }) => ({ jobId: id, principal: { keyId, mode, projectId, scopes: [] } })),
    )
    erased += outcomes.filter(({ _tag }) => _tag === "Erased").length
    after = page.next
  } while (after !== undefined)
  return erased
})

/** Deletes in an older backup what was deleted until the newest one was made. Nothing to do for the newest itself. */
const applyErasures = (path: string, found: Generation, newest: Generation) =>
  found.name === newest.name
    ? Effect.succeed(0)
    : Effect.scoped(
        Effect.gen(function* () {
          const scratch = yield* Effect.acquireRelease(
            onFiles(path, () => mkdtempSync(join(tmpdir(), "kiln-restore-"))),
            (made) => Effect.sync(() => rmSync(made, { recursive: true, force: true })),
          )
          const copy = join(scratch, databaseFile)
          yield* copyPrivately(join(newest.path, databaseFile), copy)
          return yield* eraseAsIn(yield* openRecords(path), yield* openRecords(copy))
        }),
      )

/** A log has the name of its database. Every connection is closed, so it is empty or gone. */
const removeLogs = (path: string): void => {
  if ((statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0) > 0) throw new Error(`${path} is still in use`)
  for (const log of [`${path}-wal`, `${path}-shm`]) rmSync(log, { force: true })
}

/** Returns whether the database of a generation is the one that was backed up. */
const isIntact = (directory: string, { manifest, path }: Generation) => {
  const source = join(path, databaseFile)
  return existsSync(source)
    ? Effect.map(sha256Of(directory, source), (digest) => digest === manifest.database.sha256)
    : Effect.succeed(false)
}

/** Restores a generation into an empty directory, as a data directory on which kiln starts once it is adopted. */
export const restoreBackup = Effect.fnUntraced(function* (
  directory: string,
  { found, newest }: { readonly found: Generation; readonly newest: Generation },
  to: string,
) {
  const source = join(found.path, databaseFile)
  if (!(yield* isIntact(directory, found)))
    return yield* failed(`${databaseFile} of ${found.name} is damaged: restore another backup with --backup`)
  // Jobs that a damaged database lacks must not count as deleted.
  if (!(yield* isIntact(directory, newest)))
    return yield* failed(
      `${databaseFile} of ${newest.name}, the newest backup, is damaged, so it cannot tell which data was deleted after ${found.name}. To restore with this data, move ${newest.path} away first`,
    )
  yield* prepareTarget(directory, to, found.manifest.installation_id)
  const path = join(to, unfinishedFile)
  yield* copyPrivately(source, path)
  const erased = yield* applyErasures(path, found, newest)
  const pool = yield* openBlobsIn(directory)
  const blobs = yield* openBlobsIn(to)
  const copies = yield* Effect.scoped(
    Effect.gen(function* () {
      const records = yield* inspectSqlite({ path })
      if (records === undefined) return yield* failed(`${path} has vanished`)
      return yield* copyNamedBlobs(records, pool, blobs)
    }),
  )
  const { installation_id: installation } = found.manifest
  if (installation !== "") yield* writeMarker(yield* openBlobsIn(to), installation)
  yield* onFiles(to, async () => {
    removeLogs(path)
    renameSync(path, join(to, databaseFile))
    await syncDirectory(to)
  })
  return { copies, erased }
}, Effect.scoped)
