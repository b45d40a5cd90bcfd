import { createHash } from "node:crypto"
import { DatabaseSync } from "node:sqlite"
import { Effect, Stream } from "effect"
import { FileBlobStore } from "@kiln/adapter-blobs"
import { BlobStore } from "@kiln/core/ports"
import type { Lab } from "./Lab.ts"
import type { JobRow, NamedBlob } from "./LabStore.ts"

export interface Audit {
  readonly jobs: ReadonlyArray<JobRow>
  /** Of whom the ledger has an entry, one for each. */
  readonly chargedJobs: ReadonlyArray<string>
  /** Keys that a row names and whose blob is missing, or is not of that length and digest. */
  readonly damaged: ReadonlyArray<string>
  /** Keys of blobs that no row names. */
  readonly unnamed: ReadonlyArray<string>
}

const isWhole = ({ blobKey, bytes, sha256 }: NamedBlob) =>
  Effect.gen(function* () {
    const blob = yield* (yield* BlobStore).open(blobKey)
    const read = yield* Stream.runFold(
      blob.content,
      () => ({ hash: createHash("sha256"), bytes: 0 }),
      (sum, chunk) => ({ hash: sum.hash.update(chunk), bytes: sum.bytes + chunk.length }),
    )
    return blob.bytes === bytes && read.bytes === bytes && read.hash.digest("hex") === sha256
  }).pipe(Effect.catch(() => Effect.succeed(false)))

/** Compares rows, ledger and blobs of a lab; processes may be running on it. */
export const audit = ({ dataDirectory, store }: Pick<Lab, "dataDirectory" | "store">): Promise<Audit> =>
  Effect.gen(function* () {
    const blobs = yield* BlobStore
    // Read before the rows, so that a blob committed in the meantime is named by a row.
    const stored = yield* Stream.runCollect(Stream.merge(blobs.list("jobs"), blobs.list("uploads")))
    const { charges, jobs, named } = yield* Effect.promise(() => store.rows())
    const damaged = yield* Effect.filter(named, (one) => Effect.map(isWhole(one), (whole) => !whole))
    const keys = new Set(named.map((one) => one.blobKey))
    return {
      jobs,
      chargedJobs: charges.map(({ jobId }) => jobId),
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
