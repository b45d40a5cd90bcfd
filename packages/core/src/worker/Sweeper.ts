import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type { BlobUnavailable } from "../domain/index.ts"
import { EngineConfig, type EngineSettings } from "../engine/EngineConfig.ts"
import { emitFailed, type JobEvents } from "../engine/JobEvents.ts"
import { purgeBlobs } from "../engine/purgeBlobs.ts"
import { finiteAges, retentionPeriods } from "../engine/retentionPeriods.ts"
import { installedKinds } from "../kinds/installedKinds.ts"
import type { JobKind } from "../kinds/JobKind.ts"
import {
  type BlobStore,
  type IdGenerator,
  type JobDirectory,
  JobStore,
  type PruneResult,
  UploadStore,
} from "../ports/index.ts"
import { BlobGuard } from "./BlobGuard.ts"
import { collectOrphans } from "./collectOrphans.ts"
import { firstPause, growingPauses } from "./growingPauses.ts"
import { requireOriginal } from "./copies.ts"
import { requireCurrentStore } from "./lineage.ts"
import { makeOutageLog } from "./outageLog.ts"
import { measureSweep } from "./sweepMetrics.ts"

/** Maximum number of records that one step of a sweep changes, so that a sweep never occupies the store for long. */
const stepSize = 100
/** After this many failed purges, a sweep leaves the rest to the next one: the whole blob store is probably unavailable. */
const maxStuckPurges = 500
/**
 * Each process starts its first sweep at a random moment within this time, so that processes started together do not
 * coincide.
 */
const startWithinMs = 10_000
/** The longest pause between sweeps, as a share of the limit that they enforce. Nothing ends later than by this share. */
const shareOfLimit = 1 / 60

/** Repeats a step until it finds fewer than `stepSize` records. Returns the total. */
const untilDone = <E, R>(step: Effect.Effect<number, E, R>): Effect.Effect<number, E, R> =>
  Effect.gen(function* () {
    for (let found = 0; ; yield* Effect.yieldNow) {
      const count = yield* step
      found += count
      if (count < stepSize) return found
    }
  })

const notRemoved = (error: BlobUnavailable) =>
  Effect.logWarning("could not remove some blobs; trying again later", error.cause)

/** Fails jobs that waited or ran too long. Returns their number. */
export const expireOverdue = Effect.flatMap(JobStore, (store) =>
  untilDone(Effect.flatMap(store.expireJobs(stepSize), (expired) => Effect.as(emitFailed(expired), expired.length))),
)

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
 * Erases data past its retention, and finishes purges that are still due. Returns the number of records and purges found. Erased
 * data is unreachable immediately. Without `removes`, its blobs stay and their purges remain due: a process on a fresh copy of the
 * store cannot know what the original has done with them since.
 */
const prune = Effect.fnUntraced(function* ({ removes }: { readonly removes: boolean }) {
  const config = yield* EngineConfig
  const { data, jobs: records } = retentionPeriods(config, yield* installedKinds)
  // An older copy of the store could remove blobs that the newer one still uses. If the blob store is unavailable, nothing can be
  // removed, but overdue data becomes unreachable nevertheless.
  yield* Effect.catchTag(requireCurrentStore, "BlobUnavailable", () => Effect.void)
  const jobs = yield* JobStore
  const uploads = yield* UploadStore
  // A blob that cannot be removed now stays due and must not delay other removals.
  const pruned = <E, R>(step: Effect.Effect<PruneResult, E, R>) =>
    untilDone(
      Effect.flatMap(step, (result) =>
        Effect.as(
          removes ? Effect.catchTag(purgeBlobs(result.purges), "BlobUnavailable", notRemoved) : Effect.void,
          result.count,
        ),
      ),
    )
  return {
    expiredData: finiteAges(data).length === 0 ? 0 : yield* pruned(jobs.expireData(data, stepSize)),
    deletedJobs: finiteAges(records).length === 0 ? 0 : yield* pruned(jobs.deleteJobs(records, stepSize)),
    // These uploads belong to no job, and so to no kind.
    deletedUploads:
      config.jobRetentionMs === 0 ? 0 : yield* untilDone(uploads.deleteUploads(config.jobRetentionMs, stepSize)),
    expiredUploads: yield* pruned(uploads.expireUploads(stepSize)),
    purges: removes ? yield* purgeDue : (yield* jobs.listPurges(1)).length,
  } satisfies Pruned
})

const sumOf = ({ deletedJobs, deletedUploads, expiredData, expiredUploads, purges }: Pruned): number =>
  expiredData + deletedJobs + expiredUploads + deletedUploads + purges

/** Prunes, removes blobs, and returns the numbers of what it removed. Only for a process that knows that no other copy of the store is in use. */
export const pruneAndReport = prune({ removes: true })

/** Like `pruneAndReport`, but returns only how much it removed in all. */
export const pruneOnce = Effect.map(pruneAndReport, sumOf)

/**
 * Tries each due purge once. Failed ones stay at the head of the list, which is ordered by age, so it is read past them;
 * otherwise, a hundred that never succeed would block all others. Fails with the first failure.
 */
const purgeDue = Effect.gen(function* () {
  const jobs = yield* JobStore
  const tried = new Set<string>()
  let failure: BlobUnavailable | undefined
  for (let mayBeStuck = 0; ;) {
    const due = yield* jobs.listPurges(mayBeStuck + stepSize)
    const fresh = due.filter(({ blobPrefix }) => !tried.has(blobPrefix))
    const stuck = due.length - fresh.length
    if (stuck >= maxStuckPurges) break
    for (const { blobPrefix } of fresh) tried.add(blobPrefix)
    const failed = yield* purgeBlobs(fresh).pipe(
      Effect.as(undefined),
      Effect.catchTag("BlobUnavailable", (error) => Effect.succeed(error)),
    )
    failure ??= failed
    mayBeStuck = failed === undefined ? stuck : stuck + fresh.length
    if (fresh.length < stepSize) break
    yield* Effect.yieldNow
  }
  return failure === undefined ? tried.size : yield* Effect.fail(failure)
})

interface SweepPace {
  /** Interval while sweeps find something. */
  readonly intervalMs: number
  /** Maximum interval while sweeps find nothing. */
  readonly idleIntervalMs: number
}

/** Repeats a sweep indefinitely. A failed sweep is retried after the usual pause. */
const every = <E, R>(
  name: string,
  pace: SweepPace,
  work: Effect.Effect<number, E, R>,
): Effect.Effect<never, never, R> =>
  Effect.gen(function* () {
    const pauses = growingPauses(pace.intervalMs)
    const outage = makeOutageLog(`the sweep "${name}"`)
    yield* Effect.sleep(yield* firstPause(Math.min(pace.intervalMs, startWithinMs)))
    while (true) {
      const found = yield* Effect.tap(measureSweep(name, work), () => outage.worked).pipe(
        Effect.catchCause((cause) => Effect.as(outage.failed(cause), undefined)),
      )
      if (found !== 0) pauses.reset()
      yield* Effect.sleep(yield* pauses.next(pace.idleIntervalMs))
    }
  })

/**
 * A job past its deadline ends within `sweepIntervalMs` if a worker with claimed jobs is running (`expireWhileHolding`).
 * Otherwise, it ends within the idle interval: 30 s with the default limits, and a second per minute of shorter limits, but at
 * least `sweepIntervalMs`.
 */
const paceOfExpiry = (config: EngineSettings): SweepPace => ({
  intervalMs: config.sweepIntervalMs,
  idleIntervalMs: Math.min(config.idleSweepIntervalMs, shareOfLimit * Math.min(config.queueLimitMs, config.runLimitMs)),
})

const paceOfPruning = (config: EngineSettings, kinds: ReadonlyArray<JobKind>): SweepPace => {
  const { data, jobs } = retentionPeriods(config, kinds)
  const kept = [...finiteAges(data), ...finiteAges(jobs)]
  return {
    intervalMs: config.pruneIntervalMs,
    idleIntervalMs: Math.min(config.idlePruneIntervalMs, shareOfLimit * Math.min(config.upload.usableForMs, ...kept)),
  }
}

const steadily = (intervalMs: number): SweepPace => ({ intervalMs, idleIntervalMs: intervalMs })

/** Waits until every other process has had time to notice this one. */
const settle = Effect.fnUntraced(function* (guard: BlobGuard["Service"]) {
  yield* guard.join
  while (!(yield* guard.isSettled)) yield* Effect.sleep((yield* guard.intervalMs) / 4)
})

/** Waits until the records are not an unadopted copy. Usually they are not, and one look suffices. */
const untilOriginal = Effect.fnUntraced(function* (intervalMs: number) {
  const outage = makeOutageLog("checking that the records are not a copy")
  while (
    !(yield* Effect.as(requireOriginal, true).pipe(
      Effect.catchCause((cause) => Effect.as(outage.failed(cause), false)),
    ))
  )
    yield* Effect.sleep(intervalMs)
})

/**
 * Runs the sweeps, each at its own interval, and less often while they find nothing, so that an idle process rarely uses the
 * store.
 */
const sweep = Effect.gen(function* () {
  const config = yield* EngineConfig
  const kinds = yield* installedKinds
  const guard = yield* BlobGuard
  const joined = Effect.catchTag(guard.join, "BlobUnavailable", () => Effect.void)
  yield* untilOriginal(yield* guard.intervalMs)
  yield* Effect.all(
    [
      every("expire", paceOfExpiry(config), expireOverdue),
      every("blobs", steadily(yield* guard.intervalMs), Effect.as(guard.look, 0)),
      every(
        "prune",
        paceOfPruning(config, kinds),
        Effect.andThen(
          joined,
          Effect.flatMap(guard.isSettled, (isSettled) => Effect.map(prune({ removes: isSettled }), sumOf)),
        ),
      ),
      every("orphans", steadily(config.orphanIntervalMs), Effect.andThen(settle(guard), collectOrphans)),
    ],
    { concurrency: "unbounded", discard: true },
  )
})

/** Runs the sweeps until the layer's scope closes. Every process runs them, whether or not it runs jobs. */
export const layerSweeps: Layer.Layer<
  never,
  never,
  JobStore | JobDirectory | UploadStore | BlobStore | IdGenerator | JobEvents
> = Layer.effectDiscard(
  Effect.gen(function* () {
    // A program that joined the blob store before it builds this layer provides the guard that it used.
    const given = yield* Effect.serviceOption(BlobGuard)
    const guard = Option.isSome(given) ? given.value : Context.get(yield* Layer.build(BlobGuard.layer), BlobGuard)
    yield* Effect.forkScoped(Effect.provideService(sweep, BlobGuard, guard))
  }),
)

/**
 * Checks for overdue jobs at the short interval while `holds` returns true, independently of the other sweeps: a worker that runs
 * a job is responsible for ending it. It continues for one heartbeat longer, because an attempt ends just before its job's
 * deadline.
 */
export const expireWhileHolding = (
  holds: () => boolean,
): Effect.Effect<never, never, JobStore | JobDirectory | JobEvents> =>
  Effect.gen(function* () {
    const { leaseDurationMs, sweepIntervalMs } = yield* EngineConfig
    const lingerMs = Math.max(leaseDurationMs / 3, sweepIntervalMs)
    const expire = Effect.catchCause(expireOverdue, (cause) => Effect.logWarning("sweep failed: expire", cause))
    for (let idleMs = Infinity; ;) {
      yield* Effect.sleep(sweepIntervalMs)
      idleMs = holds() ? 0 : idleMs + sweepIntervalMs
      if (idleMs <= lingerMs) yield* expire
    }
  })
