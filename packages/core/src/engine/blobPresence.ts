import * as Effect from "effect/Effect"
import { type BlobUnavailable, StoreUnavailable } from "../domain/index.ts"
import { type BlobStore, JobStore, UploadStore } from "../ports/index.ts"

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

const known = new WeakMap<object, BlobPresence>()

/** The presence of a blob store, one for all its users in this process. */
export const presenceOf = (blobs: BlobStore["Service"]): BlobPresence => {
  const presence = known.get(blobs) ?? new BlobPresence(blobs)
  known.set(blobs, presence)
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
