import { createHash } from "node:crypto"
import { rmSync, statSync } from "node:fs"
import { join } from "node:path"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Hex from "effect/encoding/Hex"
import * as Stream from "effect/Stream"
import { FileBlobStore } from "@kiln/adapter-blobs"
import { holdLock, inspectSqlite, makeDirectory, type SnapshotCounts, snapshotSqlite } from "@kiln/adapter-sqlite"
import type { BlobUnavailable, StoreUnavailable } from "@kiln/core/domain"
import { fingerprintSecret } from "@kiln/core/effect"
import { BlobStore, type StoreInspection } from "@kiln/core/ports"
import { decodeLineage } from "@kiln/core/worker"
import { type CommandFailed, failed } from "../CommandFailed.ts"
import type { SqlitePlace } from "../database/DatabasePlace.ts"
import { installationSecret } from "../installation/markers.ts"
import { formatTime } from "../Output.ts"
import {
  beginGeneration,
  completeGeneration,
  databaseFile,
  directoryUnusable,
  type Generation,
  listGenerations,
  onFiles,
  readBlobKeys,
  removeGeneration,
  sha256Of,
  writeBlobList,
} from "./BackupDirectory.ts"
import { generationsOf } from "./backupMarker.ts"
import { claimDirectory, lockFile, refuseOccupied } from "./claimDirectory.ts"
import { type BlobCopies, copyNamedBlobs } from "../blobs/copyBlobs.ts"

/** Snapshots are repeated while files that they name are deleted before they are copied. Each repetition has less to copy. */
const mostSnapshots = 10

export interface TakenBackup {
  readonly name: string
  readonly createdAt: string
  readonly counts: SnapshotCounts
  readonly blobs: BlobCopies
  readonly removed: ReadonlyArray<string>
}

/** The sources of a backup. */
export interface BackupSource {
  readonly place: SqlitePlace
  readonly records: StoreInspection
  readonly blobs: BlobStore["Service"]
  readonly version: string
  /** The directories of the installation itself. No backup is written to them, into them or around them. */
  readonly ownDirectories: ReadonlyArray<string>
}

/** Opens the files of a backup, or of a restored installation, while the scope is open. */
export const openBlobsIn = (directory: string) =>
  Effect.map(Layer.build(FileBlobStore.layer({ directory })), (built) => Context.get(built, BlobStore)).pipe(
    Effect.mapError((error) => directoryUnusable(directory, error.cause)),
  )

const installationOf = (records: StoreInspection) =>
  Effect.map(records.findSecret(installationSecret), (secret) => (secret === undefined ? "" : Hex.encode(secret)))

const generationOf = (records: StoreInspection) =>
  Effect.map(records.readLineage, ({ document }) => decodeLineage(document).generation)

/** Adds what was copied before. Files that were copied and then deleted count too. */
const withCopies = (copies: BlobCopies, early: BlobCopies): BlobCopies => ({
  ...copies,
  copied: copies.copied + early.copied,
  copiedBytes: copies.copiedBytes + early.copiedBytes,
})

/** Takes the snapshot until every file that it names was copied, or is unusable in the installation too. */
const snapshotAndCopy = Effect.fnUntraced(function* (
  { blobs, place, records }: BackupSource,
  to: BlobStore["Service"],
  path: string,
) {
  // Most files are copied before the snapshot, so that few can be deleted between the snapshot and their copy.
  const early = yield* copyNamedBlobs(records, blobs, to)
  const file = join(path, databaseFile)
  for (let taken = 1; taken <= mostSnapshots; taken++) {
    const counts = yield* snapshotSqlite(place.path, file)
    const outcome = yield* Effect.scoped(
      Effect.gen(function* () {
        const snapshot = yield* inspectSqlite({ path: file })
        if (snapshot === undefined) return yield* failed(`the snapshot ${file} has vanished`)
        const copies = yield* copyNamedBlobs(snapshot, blobs, to)
        const isStillNamed = Effect.map(
          Effect.forEach(copies.failed, ({ named }) => records.isNamed(named)),
          (named) => named.every(Boolean),
        )
        return {
          copies,
          isWhole: yield* isStillNamed,
          generation: yield* generationOf(snapshot),
          migrations: (yield* snapshot.migrations).applied.map(({ name }) => name),
        }
      }),
    )
    if (outcome.isWhole) return { ...outcome, copies: withCopies(outcome.copies, early), counts, file }
    yield* onFiles(path, () => rmSync(file))
  }
  return yield* failed(
    `files were deleted faster than they could be copied, ${mostSnapshots} times: try again at a quieter time; nothing was backed up`,
  )
})

/** Removes the oldest generations beyond `keep`, and then the files that no generation names. Only in a directory that is marked. */
const prune = Effect.fnUntraced(function* (directory: string, keep: number, pool: BlobStore["Service"]) {
  const all = yield* listGenerations(directory)
  const old = all.slice(0, Math.max(0, all.length - keep))
  for (const generation of old) yield* removeGeneration(directory, generation)
  const named = new Set<string>()
  for (const generation of all.slice(old.length))
    for (const key of yield* readBlobKeys(directory, generation)) named.add(key)
  for (const root of ["jobs", "uploads"])
    yield* Stream.runForEach(pool.list(root), (key) => (named.has(key) ? Effect.void : pool.remove(key)))
  return old.map(({ name }) => name)
})

/** Identifies the installation without revealing the secret. Every engine makes it, and it never changes. */
const originOf = (records: StoreInspection) =>
  Effect.map(records.findSecret(fingerprintSecret), (secret) =>
    secret === undefined ? "" : createHash("sha256").update(secret).digest("hex"),
  )

const refuseOther = (directory: string, earlier: ReadonlyArray<Generation>, origin: string) => {
  const other = earlier.find(({ manifest }) => manifest.origin !== "" && manifest.origin !== origin)
  return other === undefined
    ? Effect.void
    : Effect.fail(
        failed(`${directory} contains backups of another installation (${other.name}): choose another directory`),
      )
}

/** Backs up records and files into a directory, also while servers run. Earlier backups there are kept, and their files shared. */
export const takeBackup = Effect.fnUntraced(function* (source: BackupSource, directory: string, keep: number) {
  yield* refuseOccupied(directory, source.ownDirectories)
  yield* onFiles(directory, () => makeDirectory(directory))
  yield* holdLock(join(directory, lockFile)).pipe(
    Effect.mapError((error) =>
      error._tag === "LockHeld"
        ? failed(`another kiln backup is writing to ${directory}: wait until it is finished`)
        : directoryUnusable(directory, error.cause),
    ),
  )
  const installation = yield* installationOf(source.records)
  const origin = yield* originOf(source.records)
  yield* refuseOther(directory, yield* listGenerations(directory), origin)
  yield* claimDirectory(directory)
  const now = yield* Clock.currentTimeMillis
  const pool = yield* openBlobsIn(directory)
  const path = yield* beginGeneration(directory, now)
  const { copies, counts, file, generation, migrations } = yield* snapshotAndCopy(source, pool, path)
  const listed = yield* writeBlobList(directory, path, copies.listed)
  const createdAt = formatTime(now)
  const final = yield* completeGeneration(directory, path, {
    format: 1,
    kiln: source.version,
    installation_id: installation,
    origin,
    created_at: createdAt,
    database: {
      bytes: yield* onFiles(directory, () => statSync(file).size),
      sha256: yield* sha256Of(directory, file),
      generation,
      migrations,
      counts,
    },
    blobs: {
      count: copies.listed.length,
      bytes: copies.bytes,
      list_sha256: listed,
      unusable: copies.failed.map(({ named }) => named.blobKey),
    },
  })
  // Older backups may have the files that this one lacks.
  const removed = copies.failed.length > 0 ? [] : yield* prune(directory, keep, pool)
  return { name: final.slice(generationsOf(directory).length + 1), createdAt, counts, blobs: copies, removed }
}, Effect.scoped) satisfies (
  ...given: never
) => Effect.Effect<TakenBackup, CommandFailed | StoreUnavailable | BlobUnavailable>
