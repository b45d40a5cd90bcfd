import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { EngineConfig } from "../../engine/EngineConfig.ts"
import type { EngineSettings } from "../../engine/EngineSettings.ts"
import { emitFailed, type JobEvents } from "../../engine/JobEvents.ts"
import { retentionPublication, retentionRules } from "../../engine/retentionRules.ts"
import { installedKinds } from "../../kinds/installedKinds.ts"
import type { JobKind } from "../../kinds/JobKind.ts"
import { type BlobStore, IdGenerator, type JobDirectory, JobStore, type UploadStore } from "../../ports/index.ts"
import { BlobGuard } from "../../installation/BlobGuard.ts"
import { collectOrphans } from "./collectOrphans.ts"
import { firstPause, growingPauses, inSteps, makeOutageLog } from "../repeating.ts"
import { requireOriginal } from "../../installation/copies.ts"
import { prune, totalOf } from "./prune.ts"
import { measureSweep } from "../metrics/sweepMetrics.ts"

/**
 * Each process starts its first sweep at a random moment within this time, so that processes started together do not
 * coincide.
 */
const startWithinMs = 10_000
/** The longest pause between sweeps, as a share of the limit that they enforce. Nothing ends later than by this share. */
const shareOfLimit = 1 / 60

/** Fails jobs that waited or ran too long. Returns their number. */
export const expireOverdue = Effect.flatMap(JobStore, (store) =>
  inSteps((limit) =>
    Effect.flatMap(store.expireJobs(limit), (expired) => Effect.as(emitFailed(expired), expired.length)),
  ),
)

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
  const kept = retentionRules(config, kinds).flatMap(({ dataMs, jobsMs }) => [dataMs ?? Infinity, jobsMs ?? Infinity])
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
  const store = yield* JobStore
  const publication = retentionPublication(config, kinds, (yield* IdGenerator).next("req"))
  const publish = (ttlMs: number) =>
    Effect.catchCause(store.publishRetention({ ...publication, ttlMs }), (cause) =>
      Effect.logDebug("could not publish how long jobs are kept; the next sweep does", cause),
    )
  // First, so that no other process removes what this one keeps longer.
  yield* publish(publication.ttlMs)
  yield* Effect.all(
    [
      every("expire", paceOfExpiry(config), expireOverdue),
      every("blobs", steadily(yield* guard.intervalMs), Effect.as(guard.look, 0)),
      every(
        "prune",
        paceOfPruning(config, kinds),
        Effect.andThen(
          joined,
          Effect.flatMap(guard.isSettled, (removes) =>
            Effect.flatMap(prune(publication, { removes, retries: false }), totalOf),
          ),
        ),
      ),
      every("orphans", steadily(config.orphanIntervalMs), Effect.andThen(settle(guard), collectOrphans)),
    ],
    { concurrency: "unbounded", discard: true },
  ).pipe(Effect.ensuring(publish(0)))
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
    const outage = makeOutageLog("looking for overdue jobs")
    const expire = Effect.tap(expireOverdue, () => outage.worked).pipe(Effect.catchCause(outage.failed))
    for (let idleMs = Infinity; ;) {
      yield* Effect.sleep(sweepIntervalMs)
      idleMs = holds() ? 0 : idleMs + sweepIntervalMs
      if (idleMs <= lingerMs) yield* expire
    }
  })
