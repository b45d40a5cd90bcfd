import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { emptyLineage, encodeLineage } from "../domain/BlobLineage.ts"
import { BlobCorrupt, type BlobNotFound, type BlobUnavailable, StoreUnavailable } from "../domain/index.ts"
import { monotonicMs } from "../domain/monotonicMs.ts"
import type { OpenBlob } from "../ports/BlobStore.ts"
import { type BlobInfo, type BlobRange, BlobStore, JobStore, type Purge, UploadStore } from "../ports/index.ts"

/**
 * Opens the blob that a row names, and compares it with what the row was committed with, also when only a range is read: a blob
 * store that was restored, or confused with another one, contains complete blobs of other jobs.
 */
export const openNamed = (
  blobs: BlobStore["Service"],
  row: BlobInfo & { readonly blobKey: string },
  range?: BlobRange,
): Effect.Effect<OpenBlob, BlobNotFound | BlobUnavailable | BlobCorrupt> =>
  Effect.flatMap(blobs.open(row.blobKey, range), (blob) =>
    blob.bytes === row.bytes && blob.sha256 === row.sha256
      ? Effect.succeed(blob)
      : Effect.fail(new BlobCorrupt({ key: row.blobKey })),
  )

/** Stores that this process has seen with a lineage. None loses it. */
const announced = new WeakSet<object>()

/**
 * Records in the store that it is used with a blob store, once, before the first blob is written: a process without blobs takes a
 * store that has no lineage for one whose jobs have no files (`noBlobs`). The entries of the lineage come later, with the first sweep.
 */
export const announceBlobs = (store: Pick<JobStore["Service"], "readLineage" | "writeLineage">) =>
  announced.has(store)
    ? Effect.void
    : Effect.gen(function* () {
        const { document, version } = yield* store.readLineage
        // If another process writes first, the store has one as well.
        if (document === null) yield* store.writeLineage(version, encodeLineage(emptyLineage))
        announced.add(store)
      })

/** Bounds of the time that a completion waits for others, in milliseconds. In between, it is a quarter of what a file takes: more on a slow disk. */
const waitMs = { least: 1, most: 10 }

/**
 * The files that attempts of this process are writing to a blob store. A file takes several turns of the event loop, so jobs that began
 * together end a little apart, and each would have a commit to itself. Completions therefore wait for the writes in progress, briefly.
 */
class FilesInProgress {
  #count = 0
  /** Milliseconds that a file took lately. */
  #tookMs = 0
  readonly #waiting = new Set<() => void>()

  /** Runs an effect that writes a file. */
  readonly writing = <A, E, R>(write: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.acquireUseRelease(
      Effect.map(monotonicMs, (now) => {
        this.#count += 1
        return now
      }),
      () => write,
      (from) =>
        Effect.map(monotonicMs, (now) => {
          this.#tookMs += (now - from - this.#tookMs) / 16
          this.#ended()
        }),
    )

  #ended(): void {
    this.#count -= 1
    if (this.#count > 0) return
    for (const resume of this.#waiting) resume()
  }

  /** Waits until no file is being written, but not long. */
  readonly settle: Effect.Effect<void> = Effect.suspend(() => {
    if (this.#count === 0) return Effect.void
    const noneLeft = Effect.callback<void>((resume) => {
      const end = (): void => resume(Effect.void)
      this.#waiting.add(end)
      return Effect.sync(() => this.#waiting.delete(end))
    })
    return Effect.andThen(
      Effect.raceFirst(noneLeft, Effect.sleep(Math.min(Math.max(this.#tookMs / 4, waitMs.least), waitMs.most))),
      Effect.yieldNow,
    )
  })
}

const inProgress = new WeakMap<object, FilesInProgress>()

/** The files in progress of a blob store, for all its users in this process. */
export const filesInProgress = (blobs: BlobStore["Service"]): FilesInProgress => {
  const files = inProgress.get(blobs) ?? new FilesInProgress()
  inProgress.set(blobs, files)
  return files
}

/** Milliseconds for which a look at the place of the blobs counts. */
const goodForMs = 1_000

/**
 * Whether the blob store is the one that this process began with. While it is gone, no work is accepted or claimed, because uploads
 * cannot be read and results cannot be stored.
 */
class BlobPresence {
  readonly #check: Effect.Effect<void, BlobUnavailable>
  #lookedAt = -Infinity
  #absence: BlobUnavailable | undefined
  #loss: BlobUnavailable | undefined

  constructor({ checkPresence = Effect.void }: Pick<BlobStore["Service"], "checkPresence">) {
    this.#check = checkPresence
  }

  /** Reports that the content of the store is gone, or is there again. */
  report(loss: BlobUnavailable | undefined): void {
    this.#loss = loss
  }

  /** Runs a verb only while the store is there. Looks at most once a second, in real time, which is that of disks. */
  readonly whenPresent =
    (operation: string) =>
    <A, E, R>(verb: Effect.Effect<A, E, R>): Effect.Effect<A, E | StoreUnavailable, R> =>
      Effect.suspend(() => {
        const isFresh = performance.now() - this.#lookedAt < goodForMs
        return Effect.flatMap(isFresh ? Effect.void : this.#look, (): Effect.Effect<A, E | StoreUnavailable, R> => {
          const missing = this.#absence ?? this.#loss
          return missing === undefined ? verb : Effect.fail(new StoreUnavailable({ operation, cause: missing.cause }))
        })
      })

  get #look(): Effect.Effect<void> {
    return Effect.matchEager(this.#check, {
      onFailure: (absence) => this.#learn(absence),
      onSuccess: () => this.#learn(undefined),
    })
  }

  #learn(absence: BlobUnavailable | undefined): void {
    this.#lookedAt = performance.now()
    this.#absence = absence
  }
}

const presences = new WeakMap<object, BlobPresence>()

/** The presence of a blob store, one for all its users in this process. */
export const presenceOf = (blobs: BlobStore["Service"]): BlobPresence => {
  const presence = presences.get(blobs) ?? new BlobPresence(blobs)
  presences.set(blobs, presence)
  return presence
}

/** Stores that accept and claim work only while the blob store is there. */
export const whileBlobsPresent = (
  blobs: BlobStore["Service"] | undefined,
  store: JobStore["Service"],
  uploads: UploadStore["Service"],
): { readonly store: JobStore["Service"]; readonly uploads: UploadStore["Service"] } => {
  if (blobs === undefined) return { store, uploads }
  const { whenPresent } = presenceOf(blobs)
  return {
    store: JobStore.of({
      ...store,
      createJobs: (jobs) => whenPresent("createJobs")(store.createJobs(jobs)),
      createAndClaimJobs: (jobs, request) => whenPresent("createJobs")(store.createAndClaimJobs(jobs, request)),
      completeAndClaimJobs: (items, request) => whenPresent("claimJobs")(store.completeAndClaimJobs(items, request)),
      claimJobs: (request) => whenPresent("claimJobs")(store.claimJobs(request)),
    }),
    uploads: UploadStore.of({
      ...uploads,
      createUploads: (items) => whenPresent("createUploads")(uploads.createUploads(items)),
    }),
  }
}

/** The outcome of purges. */
interface Purged {
  /** Number of those whose blobs are verifiably gone. */
  readonly gone: number
  /** The first failure, if any. */
  readonly failure: BlobUnavailable | undefined
}

/** Concurrent removals share work in stores that can: a directory of files reads a shard and syncs it once for several. */
const removedAtOnce = 16

/**
 * Removes blobs that nothing refers to any more, and confirms each purge once they are verifiably gone. A purge that fails is moved
 * back, so that it does not keep the store from the others, and does not prevent those that follow here.
 */
export const tryPurges = Effect.fnUntraced(function* (purges: ReadonlyArray<Purge>) {
  const blobs = yield* BlobStore
  const store = yield* JobStore
  const results = yield* Effect.forEach(purges, (purge) => Effect.result(blobs.remove(purge.blobPrefix)), {
    concurrency: removedAtOnce,
  })
  const failed = purges.filter((_, index) => results[index]?._tag === "Failure")
  const gone = purges.filter((_, index) => results[index]?._tag === "Success")
  if (gone.length > 0) yield* store.confirmPurges(gone)
  if (failed.length > 0) yield* store.postponePurges(failed)
  return { gone: gone.length, failure: results.find(Result.isFailure)?.failure } satisfies Purged
})

/** Does the same, and fails with the first failure. */
export const purgeBlobs = (purges: ReadonlyArray<Purge>) =>
  Effect.flatMap(tryPurges(purges), ({ failure }) => (failure === undefined ? Effect.void : Effect.fail(failure)))
