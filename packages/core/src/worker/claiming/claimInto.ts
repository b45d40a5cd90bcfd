import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Stream from "effect/Stream"
import { StoreUnavailable } from "../../domain/index.ts"
import type { WorkerRoom } from "../../domain/JobsInProgress.ts"
import { monotonicMs } from "../../domain/monotonicMs.ts"
import { EngineConfig } from "../../engine/EngineConfig.ts"
import { emitFailed } from "../../engine/JobEvents.ts"
import { BlobStore, type Claim, type ClaimRequest, type ClaimResult, JobStore, WakeUp } from "../../ports/index.ts"
import { ProviderGuard } from "../../providers/ProviderGuard.ts"
import { needsIsolation, type Slots } from "./Slots.ts"
import { Rates, runnableKinds, type RunnableNow } from "./conditions.ts"

/**
 * Releases lapsed claims one by one. Fenced like every write: if another worker has claimed the job, nothing happens.
 * If the store is still unavailable, the claims are kept for the next call. After any other failure, the job stays claimed until
 * its lease ends.
 */
const releaseLapsed = Effect.fnUntraced(function* (slots: Slots) {
  const store = yield* JobStore
  for (const ref of slots.lapsed) {
    yield* Effect.catchDefect(store.releaseJobs([ref]), () =>
      Effect.logWarning("could not release a lapsed claim", ref.jobId),
    )
    slots.lapsed.delete(ref)
  }
})

/**
 * Checks regularly whether the blob store is available again, for the kinds that wait for it. It writes a single byte, so that no
 * result that was paid for is risked. It runs concurrently with claiming, so that a blob store that hangs does not delay other
 * kinds.
 */
export const watchWithheld = Effect.fnUntraced(function* (slots: Slots) {
  const { pollIntervalMs } = yield* EngineConfig
  const blobs = yield* BlobStore
  const wakeUp = yield* WakeUp
  while (true) {
    yield* Effect.sleep(pollIntervalMs)
    for (const [kind, key] of slots.withheld) {
      const back = blobs.put(key, Stream.succeed(new Uint8Array(1)), { maxBytes: 1 }).pipe(
        Effect.andThen(blobs.remove(key)),
        Effect.as(true),
        Effect.catchCause(() => Effect.succeed(false)),
      )
      if (!(yield* back)) continue
      slots.withheld.delete(kind)
      yield* wakeUp.notify
    }
  }
})

/** Returns the claim that this worker can make now: up to a number of jobs, or as many as there are free slots. */
export const claimRequest = Effect.fnUntraced(function* (slots: Slots, room: number | WorkerRoom) {
  const {
    attempts: { maxLostWorkers },
    concurrency,
    leaseDurationMs,
  } = yield* EngineConfig
  const now = yield* runnableKinds
  const upTo = boundsOf(room, now, mostAtOnce(concurrency))
  const runnable = now.runnable.filter(
    ({ kind, mode }) => !slots.withheld.has(kind) && (upTo.worker === undefined || upTo.worker.free[mode] > 0),
  )
  return { runnable, limits: slots.limitsNow(now.projects), ...upTo, leaseDurationMs, maxLostWorkers }
})

/**
 * Handles the answer to a claim: reports abandoned jobs and defers all but one of the jobs that need isolation. Returns the jobs
 * to start, and the time until there may be more.
 */
export const acceptClaims = Effect.fnUntraced(function* (
  slots: Slots,
  { worker }: Pick<ClaimRequest, "worker">,
  { abandoned, claims: claimed, nextInMs: storeNextInMs }: ClaimResult,
) {
  const guard = yield* ProviderGuard
  const rates = yield* Rates
  if (abandoned.length > 0) {
    yield* Effect.logWarning("jobs failed because they lost too many workers", abandoned)
    yield* emitFailed(abandoned)
  }
  const { claims, backInMs } =
    worker === undefined ? { claims: claimed, backInMs: undefined } : yield* oneIsolated(slots, claimed)
  // Jobs that wait for a paused provider or for a rate were not requested, so `nextInMs` of the store does not cover them.
  const isCut = fillsQuota(worker, claimed) || fillsBounds(slots, worker, claimed)
  const held = earlier(yield* guard.nextTryInMs, isCut ? 0 : yield* rates.nextInMs)
  const nextInMs = earlier(earlier(storeNextInMs, backInMs), held)
  return { claims, nextInMs }
})

/** Claims jobs of the kinds that this worker can run now. Before that, releases claims whose end an outage kept from being written. */
export const claimInto = Effect.fnUntraced(function* (slots: Slots, room: number | WorkerRoom, maxJobs: number) {
  const { leaseDurationMs } = yield* EngineConfig
  const store = yield* JobStore
  const able = yield* claimRequest(slots, room)
  const request = { ...able, limit: Math.min(able.limit, maxJobs) }
  if (slots.lapsed.size > 0) yield* answeredWithin(leaseDurationMs, "releaseJobs", releaseLapsed(slots))
  // Read here, so that a slow release does not shorten the leases of the claimed jobs.
  const askedAtMs = yield* monotonicMs
  const result = yield* answeredWithin(leaseDurationMs, "claimJobs", store.claimJobs(request))
  return { ...(yield* acceptClaims(slots, request, result)), askedAtMs }
})

/**
 * Maximum number of jobs of one claim. A worker with many slots fills half of them at a time: while one half runs, the store
 * ends the jobs of the other half and claims the next. One claim for all slots would have the process and the store wait for
 * each other.
 */
const mostAtOnce = (concurrency: number): number => Math.max(100, Math.ceil(concurrency / 2))

/** Jobs are limited by the concurrency of their providers, as far as it is limited in their mode, and by their slots. */
const boundsOf = (
  room: number | WorkerRoom,
  { atMost, quotas }: Pick<RunnableNow, "atMost" | "quotas">,
  mostJobs: number,
): Pick<ClaimRequest, "limit" | "worker"> => {
  if (typeof room === "number") return { limit: Math.min(room, Math.min(atMost.live, atMost.sandbox)) }
  const free = {
    live: Math.max(0, Math.min(room.free.live, atMost.live)),
    sandbox: Math.max(0, Math.min(room.free.sandbox, atMost.sandbox)),
  }
  return {
    limit: Math.min(free.live + free.sandbox, mostJobs),
    worker: quotas.length === 0 ? { ...room, free } : { ...room, free, quotas },
  }
}

/**
 * Keeps at most one of the jobs that need isolation, after all others, and defers the rest, each for longer than the one before.
 * They would only wait for each other, under leases that count as running time. A deferral charges no budget, but counts as an
 * attempt. Jobs that cannot be deferred now are kept and wait.
 */
const oneIsolated = Effect.fnUntraced(function* (slots: Slots, claims: ReadonlyArray<Claim>) {
  const {
    attempts: { maxLostWorkers },
    leaseDurationMs,
  } = yield* EngineConfig
  const suspects = claims.filter(({ job }) => needsIsolation(job, maxLostWorkers))
  if (suspects.length === 0) return { claims, backInMs: undefined }
  const kept = (yield* slots.isolation.isFree) ? suspects.slice(0, 1) : []
  const spare = suspects.slice(kept.length)
  const others = claims.filter(({ job }) => !needsIsolation(job, maxLostWorkers))
  if (spare.length === 0) return { claims: [...others, ...kept], backInMs: undefined }
  const store = yield* JobStore
  const wakeUp = yield* WakeUp
  const backInMs = yield* slots.isolation.delayMs
  const returns = spare.map(({ job, token }, n) => ({
    jobId: job.id,
    token,
    delayMs: backInMs * (n + 1),
    countsAsFailure: false,
    wait: { reason: "isolation" as const, subject: null, cause: null },
  }))
  const deferred = yield* Effect.exit(answeredWithin(leaseDurationMs / 3, "deferJobs", store.deferJobs(returns)))
  if (Exit.isFailure(deferred)) return { claims: [...others, ...kept, ...spare], backInMs: undefined }
  yield* wakeUp.notify
  return { claims: [...others, ...kept], backInMs }
})

/** Whether a claim got as many jobs of a kind as its quota allows. There may be more, and the next portion of its rate. */
const fillsQuota = (worker: WorkerRoom | undefined, claims: ReadonlyArray<Claim>): boolean =>
  (worker?.quotas ?? []).some(
    ({ count, kind, mode }) => claims.filter(({ job }) => job.kind === kind && job.mode === mode).length >= count,
  )

/** Whether a claim got as many jobs of a mode as the providers of some kind allow, though there are slots for more. */
const fillsBounds = (slots: Slots, worker: WorkerRoom | undefined, claims: ReadonlyArray<Claim>): boolean => {
  const { free } = slots.room()
  return (["live", "sandbox"] as const).some((mode) => {
    const count = claims.filter(({ job }) => job.mode === mode).length
    return count > 0 && count >= (worker?.free[mode] ?? Infinity) && count < free[mode]
  })
}

/** The earlier of two times that may be unknown. */
export const earlier = (a: number | undefined, b: number | undefined): number | undefined =>
  a === undefined || b === undefined ? (a ?? b) : Math.min(a, b)

/** Fails if the answer takes longer than a lease: its leases would already have ended, and a shutdown must not wait for it. */
const answeredWithin = <A, R>(
  leaseDurationMs: number,
  operation: string,
  answer: Effect.Effect<A, StoreUnavailable, R>,
): Effect.Effect<A, StoreUnavailable, R> =>
  Effect.raceFirst(
    Effect.interruptible(answer),
    Effect.andThen(
      Effect.interruptible(Effect.sleep(leaseDurationMs)),
      Effect.suspend(() =>
        Effect.fail(new StoreUnavailable({ operation, cause: "no response within the duration of a lease" })),
      ),
    ),
  )
