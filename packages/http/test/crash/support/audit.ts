import { createHash } from "node:crypto"
import { DatabaseSync } from "node:sqlite"
import { Effect, Stream } from "effect"
import { FileBlobStore } from "@kiln/adapter-blobs"
import type { JobMode, JobStatus } from "@kiln/core/domain"
import { BlobStore } from "@kiln/core/ports"

/** The row of a job, read past every layer of the program. */
export interface JobRow {
  readonly id: string
  readonly mode: JobMode
  readonly status: JobStatus
  readonly held: number
  readonly attempts: number
  readonly failures: number
  readonly lostWorkers: number
  readonly errorCode: string | null
  readonly idempotencyKey: string
}

export interface Audit {
  readonly jobs: ReadonlyArray<JobRow>
  /** Of whom the ledger has an entry, one for each. */
  readonly chargedJobs: ReadonlyArray<string>
  /** Keys that a row names and whose blob is missing, or is not of that length and digest. */
  readonly damaged: ReadonlyArray<string>
  /** Keys of blobs that no row names. */
  readonly unnamed: ReadonlyArray<string>
}

interface Named {
  readonly blobKey: string
  readonly bytes: number
  readonly sha256: string
}

const readRows = (path: string) => {
  using database = new DatabaseSync(path, { readOnly: true, timeout: 5_000 })
  const all = <Row>(sql: string) => JSON.parse(JSON.stringify(database.prepare(sql).all())) as ReadonlyArray<Row>
  // One snapshot: a file and its job's row belong together.
  database.exec("BEGIN")
  return {
    jobs: all<JobRow>(
      'SELECT id, mode, status, held, attempts, failures, lost_workers AS "lostWorkers", error_code AS "errorCode", idempotency_key AS "idempotencyKey" FROM jobs ORDER BY seq',
    ),
    chargedJobs: all<{ job_id: string }>("SELECT job_id FROM charges").map((row) => row.job_id),
    named: all<Named>(
      'SELECT blob_key AS "blobKey", bytes, sha256 FROM files UNION ALL SELECT blob_key, bytes, sha256 FROM uploads WHERE blob_key IS NOT NULL',
    ),
  }
}

const isWhole = ({ blobKey, bytes, sha256 }: Named) =>
  Effect.gen(function* () {
    const blob = yield* (yield* BlobStore).open(blobKey)
    const read = yield* Stream.runFold(
      blob.content,
      () => ({ hash: createHash("sha256"), bytes: 0 }),
      (sum, chunk) => ({ hash: sum.hash.update(chunk), bytes: sum.bytes + chunk.length }),
    )
    return blob.bytes === bytes && read.bytes === bytes && read.hash.digest("hex") === sha256
  }).pipe(Effect.catch(() => Effect.succeed(false)))

/** Compares rows, ledger and blobs of a data directory; processes may be running on it. */
export const audit = (dataDirectory: string): Promise<Audit> =>
  Effect.gen(function* () {
    const blobs = yield* BlobStore
    // Before the rows: a blob that is committed meanwhile is then named.
    const stored = yield* Stream.runCollect(Stream.merge(blobs.list("jobs"), blobs.list("uploads")))
    const { chargedJobs, jobs, named } = readRows(`${dataDirectory}/kiln.db`)
    const damaged = yield* Effect.filter(named, (one) => Effect.map(isWhole(one), (whole) => !whole))
    const keys = new Set(named.map((one) => one.blobKey))
    return {
      jobs,
      chargedJobs,
      damaged: damaged.map((one) => one.blobKey),
      unnamed: stored.filter((key) => !keys.has(key)),
    }
  }).pipe(Effect.provide(FileBlobStore.layer({ directory: dataDirectory })), Effect.runPromise)

/** Whether somebody else could commit now. */
export const isWritable = (dataDirectory: string): boolean => {
  using database = new DatabaseSync(`${dataDirectory}/kiln.db`, { timeout: 500 })
  try {
    database.exec("BEGIN IMMEDIATE")
    database.exec("ROLLBACK")
    return true
  } catch {
    return false
  }
}

/** Puts a blob there, as a process that was then killed would have. */
export const putBlob = (dataDirectory: string, key: string): Promise<unknown> =>
  Effect.flatMap(BlobStore, (blobs) => blobs.put(key, Stream.succeed(new Uint8Array(10)), { maxBytes: 10 })).pipe(
    Effect.provide(FileBlobStore.layer({ directory: dataDirectory })),
    Effect.runPromise,
  )
