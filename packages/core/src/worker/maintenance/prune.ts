import * as Effect from "effect/Effect"
import type { BlobUnavailable } from "../../domain/index.ts"
import { EngineConfig } from "../../engine/EngineConfig.ts"
import { tryPurges } from "../../engine/blobs.ts"
import { finiteAges, retentionPublication } from "../../engine/retentionRules.ts"
import { installedKinds } from "../../kinds/installedKinds.ts"
import {
  JobStore,
  periodsOf,
  type PruneResult,
  type RetentionPublication,
  rulesInForce,
  UploadStore,
} from "../../ports/index.ts"
import { requireCurrentStore } from "../../installation/lineage.ts"
import { inPacedSteps, inSteps } from "../repeating.ts"

/** Number of purges that are tried together. */
const purgesAtOnce = 100
/**
 * After this many failed purges in a row, a sweep leaves the rest to the next one: the whole blob store is probably unavailable. The
 * next one begins behind them, because each has moved back.
 */
const maxFailedPurges = 500

/** The number of records that retention has removed. */
export interface Pruned {
  /** Finished jobs whose data was erased. */
  readonly expiredData: number
  /** Records of finished jobs. */
  readonly deletedJobs: number
  /** Uploads that no job used. */
  readonly expiredUploads: number
  /** Records of uploads that were erased before. */
  readonly deletedUploads: number
  /** Earlier removals of files that had failed and were retried. */
  readonly purges: number
}

/**
 * Erases data past its retention, and finishes purges that are due. Returns the number of records and purges found. Erased data is
 * unreachable immediately. A job is kept by the rule that is stored for its kind, whatever this process knows; one whose kind has no
 * rule yet is kept. Without `removes`, blobs stay and their purges remain due: a process on a fresh copy of the store cannot know
 * what the original has done with them since.
 */
export const prune = Effect.fnUntraced(function* (
  publication: RetentionPublication,
  { removes, retries }: { readonly removes: boolean; readonly retries: boolean },
) {
  // An older copy of the store could remove blobs that the newer one still uses. If the blob store is unavailable, nothing can be
  // removed, but overdue data becomes unreachable nevertheless.
  yield* Effect.catchTag(requireCurrentStore, "BlobUnavailable", () => Effect.void)
  const jobs = yield* JobStore
  const uploadStore = yield* UploadStore
  yield* jobs.publishRetention(publication)
  const { data, jobs: records, uploads } = periodsOf(rulesInForce(yield* jobs.readRetention))
  let failure: BlobUnavailable | undefined
  // A blob that cannot be removed now must not delay other removals.
  const pruned = <E, R>(step: (limit: number) => Effect.Effect<PruneResult, E, R>) =>
    inPacedSteps(
      step,
      ({ count }) => count,
      ({ purges }) =>
        removes
          ? Effect.map(tryPurges(purges), (tried) => {
              failure ??= tried.failure
            })
          : Effect.void,
    )
  const found = {
    expiredData: finiteAges(data).length === 0 ? 0 : yield* pruned((limit) => jobs.expireData(data, limit)),
    deletedJobs: finiteAges(records).length === 0 ? 0 : yield* pruned((limit) => jobs.deleteJobs(records, limit)),
    deletedUploads: uploads === Infinity ? 0 : yield* inSteps((limit) => uploadStore.deleteUploads(uploads, limit)),
    expiredUploads: yield* pruned(uploadStore.expireUploads),
  }
  if (!removes) return { ...found, purges: (yield* jobs.nextPurges(1)).length, failure: undefined }
  if (retries) yield* jobs.hastenPurges
  const due = yield* purgeDue(retries ? Infinity : maxFailedPurges)
  return { ...found, purges: due.purges, failure: failure ?? due.failure }
})

/**
 * Tries the purges that are due. Failed ones move back, so each step finds others, however many cannot succeed. Stops after
 * `maxFailed` failures in a row. Returns how many it found, and the first failure.
 */
const purgeDue = Effect.fnUntraced(function* (maxFailed: number) {
  const jobs = yield* JobStore
  let failure: BlobUnavailable | undefined
  for (let purges = 0, failedInARow = 0; ; yield* Effect.yieldNow) {
    const due = yield* jobs.nextPurges(purgesAtOnce)
    const tried = yield* tryPurges(due)
    purges += due.length
    failure ??= tried.failure
    failedInARow = tried.gone > 0 ? 0 : failedInARow + due.length
    if (due.length < purgesAtOnce || failedInARow >= maxFailed) return { purges, failure }
  }
})

/** Publishes the rules of a process that does not stay: they count until one that stays publishes its own. */
const publicationOnce = Effect.gen(function* () {
  return { ...retentionPublication(yield* EngineConfig, yield* installedKinds, "once"), ttlMs: 0 }
})

/**
 * Prunes, removes blobs, also those that are to be tried again later, and returns the numbers of what it removed, with the first
 * failure to remove any. Only for a process that knows that no other copy of the store is in use.
 */
export const pruneAndReport = Effect.flatMap(publicationOnce, (publication) =>
  prune(publication, { removes: true, retries: true }),
)

/** Returns how much was removed in all, or fails with the first failure to remove any of it. */
export const totalOf = ({
  deletedJobs,
  deletedUploads,
  expiredData,
  expiredUploads,
  failure,
  purges,
}: Pruned & { readonly failure: BlobUnavailable | undefined }): Effect.Effect<number, BlobUnavailable> =>
  failure === undefined
    ? Effect.succeed(expiredData + deletedJobs + expiredUploads + deletedUploads + purges)
    : Effect.fail(failure)

/** Prunes once, like the sweep of a process. */
export const pruneOnce = Effect.flatMap(publicationOnce, (publication) =>
  Effect.flatMap(prune(publication, { removes: true, retries: false }), totalOf),
)
