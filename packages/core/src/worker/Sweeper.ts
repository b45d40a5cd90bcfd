import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type { BlobUnavailable } from "../domain/index.ts"
import { EngineConfig, type EngineSettings } from "../engine/EngineConfig.ts"
import { emitFailed, type JobEvents } from "../engine/JobEvents.ts"
import { purgeBlobs } from "../engine/purgeBlobs.ts"
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
import { requireCurrentStore } from "./lineage.ts"
import { makeOutageLog } from "./outageLog.ts"

/** Records changed by one step of a sweep: a sweep never holds the store for long. */
const stepSize = 100
/** Purges that fail, in one sweep, before the rest is left to the next: with the whole blob store away, none will succeed. */
const maxStuckPurges = 500
/** Processes that start together make their first sweep within this time, each at a random moment. */
const startWithinMs = 10_000
/** A sweep that finds nothing still comes within this part of the time that it is about: nothing is late by more. */
const shareOfLimit = 1 / 60

/** Repeats a step until it finds less than it could take. Answers what it found in all. */
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

/** Fails jobs that waited or ran too long, and says how many. */
export const expireOverdue = Effect.flatMap(JobStore, (store) =>
  untilDone(Effect.flatMap(store.expireJobs(stepSize), (expired) => Effect.as(emitFailed(expired), expired.length))),
)

/**
 * Erases data past its retention, and finishes purges that are still due. Returns how much there was. Erased data is unreachable
 * immediately. Its blobs stay, and are due, where nothing is to be removed yet: a process on a fresh copy of the
 * store cannot know what the original has done with them since.
 */
const prune = Effect.fnUntraced(function* ({ removes }: { readonly removes: boolean }) {
  const { dataRetentionMs, jobRetentionMs } = yield* EngineConfig
  // An older copy of the store would remove what the newer one has given to jobs since. With the blob store out of reach
  // nothing can be removed, but what is due becomes unreachable all the same.
  yield* Effect.catchTag(requireCurrentStore, "BlobUnavailable", () => Effect.void)
  const jobs = yield* JobStore
  const uploads = yield* UploadStore
  // A blob that cannot be removed now stays due, and must not hold up what else is to be let go.
  const pruned = <E, R>(step: Effect.Effect<PruneResult, E, R>) =>
    untilDone(
      Effect.flatMap(step, (result) =>
        Effect.as(
          removes ? Effect.catchTag(purgeBlobs(result.purges), "BlobUnavailable", notRemoved) : Effect.void,
          result.count,
        ),
      ),
    )
  let found = 0
  if (dataRetentionMs > 0) found += yield* pruned(jobs.expireData(dataRetentionMs, stepSize))
  if (jobRetentionMs > 0) {
    found += yield* pruned(jobs.deleteJobs(jobRetentionMs, stepSize))
    found += yield* untilDone(uploads.deleteUploads(jobRetentionMs, stepSize))
  }
  found += yield* pruned(uploads.expireUploads(stepSize))
  return found + (removes ? yield* purgeDue : (yield* jobs.listPurges(1)).length)
})

/** Prunes in a process of which it is known that no other copy of the store objects to it. */
export const pruneOnce = prune({ removes: true })

/**
 * Tries each purge that is due once. Those that fail stay at the head of the list, which is in order of age: it is read
 * past them, or a hundred that never succeed would keep all others from being tried. The first failure is the answer.
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
  /** While there is something to find. */
  readonly intervalMs: number
  /** What that grows to while there is nothing. */
  readonly idleIntervalMs: number
}

/** Repeats a sweep indefinitely. A failed sweep is retried at its next turn. */
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
      const found = yield* Effect.tap(work, () => outage.worked).pipe(
        Effect.catchCause((cause) => Effect.as(outage.failed(cause), undefined)),
      )
      if (found !== 0) pauses.reset()
      yield* Effect.sleep(yield* pauses.next(pace.idleIntervalMs))
    }
  })

/**
 * A job past its deadline ends within `sweepIntervalMs` if a worker with claimed jobs is running (`expireWhileHolding`),
 * and within the idle pause otherwise: 30 s with the default limits, and with short ones a second for each minute of them,
 * but no less than `sweepIntervalMs`.
 */
const paceOfExpiry = (config: EngineSettings): SweepPace => ({
  intervalMs: config.sweepIntervalMs,
  idleIntervalMs: Math.min(config.idleSweepIntervalMs, shareOfLimit * Math.min(config.queueLimitMs, config.runLimitMs)),
})

const paceOfPruning = (config: EngineSettings): SweepPace => {
  const kept = [config.dataRetentionMs, config.jobRetentionMs].filter((ms) => ms > 0)
  return {
    intervalMs: config.pruneIntervalMs,
    idleIntervalMs: Math.min(config.idlePruneIntervalMs, shareOfLimit * Math.min(config.upload.usableForMs, ...kept)),
  }
}

const steadily = (intervalMs: number): SweepPace => ({ intervalMs, idleIntervalMs: intervalMs })

/** Waits until every other process has had the time to object to this one. */
const settle = Effect.fnUntraced(function* (guard: BlobGuard["Service"]) {
  yield* guard.join
  while (!(yield* guard.isSettled)) yield* Effect.sleep((yield* guard.intervalMs) / 4)
})

/** Runs the sweeps, each at its own pace, and less often while they find nothing: an idle process leaves the store alone. */
const sweep = Effect.gen(function* () {
  const config = yield* EngineConfig
  const guard = yield* BlobGuard
  const joined = Effect.catchTag(guard.join, "BlobUnavailable", () => Effect.void)
  yield* Effect.all(
    [
      every("expire", paceOfExpiry(config), expireOverdue),
      every("blobs", steadily(yield* guard.intervalMs), Effect.as(guard.look, 0)),
      every(
        "prune",
        paceOfPruning(config),
        Effect.andThen(
          joined,
          Effect.flatMap(guard.isSettled, (isSettled) => prune({ removes: isSettled })),
        ),
      ),
      every("orphans", steadily(config.orphanIntervalMs), Effect.andThen(settle(guard), collectOrphans)),
    ],
    { concurrency: "unbounded", discard: true },
  )
})

/** The sweeps, until the layer's scope closes. Every process runs them, whether or not it runs jobs. */
export const layerSweeps: Layer.Layer<
  never,
  never,
  JobStore | JobDirectory | UploadStore | BlobStore | IdGenerator | JobEvents
> = Layer.effectDiscard(
  Effect.gen(function* () {
    // A program that has joined the blobs before it starts its parts provides the guard it did that with.
    const given = yield* Effect.serviceOption(BlobGuard)
    const guard = Option.isSome(given) ? given.value : Context.get(yield* Layer.build(BlobGuard.layer), BlobGuard)
    yield* Effect.forkScoped(Effect.provideService(sweep, BlobGuard, guard))
  }),
)

/**
 * Looks for overdue jobs at the fast pace while `holds` returns true, independently of the other sweeps: a worker that runs a
 * job is responsible for its end. It goes on for one heartbeat longer, because an attempt ends just before its job's deadline.
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
