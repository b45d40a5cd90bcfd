import { BlobUnavailable, StoreUnavailable } from "@kiln/core/domain"
import type { StoreAdapter } from "@kiln/core"
import { BlobStore, insideOf, JobStore, storeAdapter } from "@kiln/core/ports"
import { MemoryBlobStore, MemoryStores } from "@kiln/testing"
import { Context, Effect, Layer } from "effect"
import type { Stores } from "./harness.ts"

export const storeDown = new StoreUnavailable({ operation: "test", cause: "down" })
export const blobsDown = new BlobUnavailable({ operation: "test", cause: "down" })

/**
 * The memory stores, with some verbs of one of them replaced. A store whose creations, completions or claims are replaced does not claim
 * with these, unless the joint verb is replaced as well.
 */
export const storesWith = <Store extends Stores, Verbs extends object>(
  port: Context.Key<Store, Verbs>,
  change: (verbs: Verbs) => Partial<Verbs>,
): Layer.Layer<Stores> =>
  replacing(MemoryStores.layer, port, (verbs) => {
    const changed = change(verbs)
    return ["createJobs", "completeJobs", "claimJobs"].some((verb) => verb in changed)
      ? { ...claimingApart({ ...verbs, ...changed } as never), ...changed }
      : changed
  })

/** A job store whose workers claim in a transaction of their own. */
const claimingApart = ({
  completeJobs,
  createJobs,
}: JobStore["Service"]): Pick<JobStore["Service"], "createAndClaimJobs" | "completeAndClaimJobs"> => ({
  createAndClaimJobs: (jobs) => Effect.map(createJobs(jobs), (created) => ({ created, claimed: undefined })),
  completeAndClaimJobs: (items) => Effect.map(completeJobs(items), (completed) => ({ completed, claimed: undefined })),
})

/** The memory blob store, with some verbs replaced. */
export const blobsWith = (
  change: (verbs: BlobStore["Service"]) => Partial<BlobStore["Service"]>,
): Layer.Layer<BlobStore> => replacing(MemoryBlobStore.layer, BlobStore, change)

export const replacing = <Ports, Port extends Ports, Verbs extends object>(
  layer: Layer.Layer<Ports>,
  port: Context.Key<Port, Verbs>,
  change: (verbs: Verbs) => Partial<Verbs>,
): Layer.Layer<Ports> =>
  Layer.effectContext(
    Effect.map(Layer.build(layer), (built) => {
      const verbs = Context.get(built, port)
      return Context.add(built, port, { ...verbs, ...change(verbs) })
    }),
  )

/** A store for `createEngine`, with some verbs of its job store replaced. */
export const adapterWith = (
  store: StoreAdapter,
  change: (verbs: JobStore["Service"]) => Partial<JobStore["Service"]>,
): StoreAdapter => storeAdapter(replacing(insideOf(store) as Layer.Layer<JobStore>, JobStore, change))

/** The memory stores, with workers that claim in a transaction of their own. */
export const storesClaimingApart: Layer.Layer<Stores> = storesWith(JobStore, ({ claimJobs }) => ({ claimJobs }))

/** Does `fault` instead of the first call, and every later call itself. */
export const insteadOfFirst = <F>(fault: Effect.Effect<never, F>) => {
  let pending = true
  return <A, E>(call: Effect.Effect<A, E>): Effect.Effect<A, E | F> =>
    Effect.suspend((): Effect.Effect<A, E | F> => {
      if (!pending) return call
      pending = false
      return fault
    })
}

/** Something that is temporarily unavailable. */
export const makeOutage = <F>(fault: F) => {
  let out = false
  return {
    begin: Effect.sync(() => {
      out = true
    }),
    end: Effect.sync(() => {
      out = false
    }),
    /** The call, or the fault while the outage lasts. */
    strikes: <A, E>(call: Effect.Effect<A, E>): Effect.Effect<A, E | F> =>
      Effect.suspend((): Effect.Effect<A, E | F> => (out ? Effect.fail(fault) : call)),
  }
}
