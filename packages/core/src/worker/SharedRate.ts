import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Scope from "effect/Scope"
import type { StoreUnavailable } from "../domain/index.ts"
import { monotonicMs } from "../domain/monotonicMs.ts"
import type { Rate } from "../domain/Rate.ts"
import { type RateLimitPolicy, TOKEN } from "../domain/RateLimit.ts"
import type { RateLimitStore } from "../ports/index.ts"
import { type CallRate, ProviderPostponed } from "../providers/index.ts"

/** How long a portion may be used. Unused tokens are returned before its end. */
const portionMs = 60_000
/** A portion is used a little shorter than the store keeps it, because clocks differ in speed. */
const usableMs = 0.95 * portionMs
/** The longest wait for a token that keeps a slot. A job that would wait longer leaves its slot and is claimed again. */
const waitInSlotMs = 1_000
/** The longest pause between two requests to the store while the bucket has tokens, but fewer than wanted. */
const longestPauseMs = 1_000
/** How long a claim waits for the store to hand out a portion. */
const answerLimitMs = 1_000
/** When to look again if running jobs are expected to use all tokens and have not done so. */
const expectedPauseMs = 1_000
const returnLimitMs = 1_000

/** Returns the token bucket of a rate. */
const policyOfRate = ({ limit, perMs, burst = Math.max(2, Math.ceil(limit / 10)) }: Rate): RateLimitPolicy => ({
  perMinute: (limit * 60_000) / perMs,
  burst,
})

/** The parts of a rate of the whole installation. */
export interface SharedRateOptions {
  readonly bucket: string
  readonly rate: Rate
  readonly store: RateLimitStore["Service"]
  /** Identifies this process among those that share the store. */
  readonly process: string
}

/**
 * A rate that all processes share. This process takes tokens from the store's bucket in portions, so that most calls write nothing.
 *
 * Before jobs are claimed, `room` says for how many there are tokens. A process that used up its last portion, or got less than it
 * wanted, takes the next one before it claims; one without demand claims first, because its jobs can wait for a portion for a moment.
 * While the bucket is known to be empty, there is no room, and the store is not asked.
 */
export const makeSharedRate = Effect.fnUntraced(function* ({
  bucket,
  process,
  rate,
  store,
}: SharedRateOptions): Effect.fn.Return<CallRate<StoreUnavailable>, never, Scope.Scope> {
  const scope = yield* Effect.scope
  const policy = policyOfRate(rate)
  const portion = Math.ceil(policy.burst / 4)
  const expected = new Set<object>()
  let tokens = 0
  let endsAt = 0
  let askAgainAt = 0
  let waiting = 0
  let inDemand = false
  let asking: Deferred.Deferred<void, StoreUnavailable> | undefined
  let returning: Fiber.Fiber<unknown, unknown> | undefined

  const takePortion = (unused: number, wanted: number) =>
    Effect.map(
      store.takePortions([{ bucket, policy, process, unused, wanted, ttlMs: portionMs }]),
      ([taken]) => taken ?? { tokens: 0, level: 0 },
    )

  /** Returns unused tokens, so that other processes can use them. */
  const giveBack = Effect.suspend(() => {
    const unused = tokens
    tokens = 0
    return unused > 0 ? Effect.ignore(takePortion(unused, 0)) : Effect.void
  })
  const giveBackLater = Effect.andThen(
    Effect.sleep(usableMs),
    Effect.suspend(() => {
      inDemand = false
      return asking === undefined ? giveBack : Effect.void
    }),
  )

  const pauseMs = (level: number, isEmpty: boolean): number => {
    const untilToken = isEmpty ? Math.ceil((TOKEN - level) / policy.perMinute) : 0
    return Math.max(1, untilToken, Math.min(longestPauseMs, Math.ceil((portion * TOKEN) / policy.perMinute)))
  }

  const askStore = Effect.gen(function* () {
    const sentAt = yield* monotonicMs
    const unused = tokens
    const wanted = Math.max(portion, waiting, expected.size)
    tokens = 0
    if (returning !== undefined) returning.interruptUnsafe()
    // After a failure it is unknown whether a portion was taken: it then counts as used.
    askAgainAt = sentAt + longestPauseMs
    const taken = yield* takePortion(unused, wanted)
    tokens = taken.tokens
    endsAt = sentAt + usableMs
    const isShort = tokens < wanted
    if (isShort) inDemand = true
    askAgainAt = isShort ? (yield* monotonicMs) + pauseMs(taken.level, tokens === 0) : 0
    if (tokens > 0) returning = yield* Effect.forkIn(giveBackLater, scope)
  })

  /** Asks for the next portion, at most once at a time. It arrives even if the job that needed it is gone. */
  const ask: Effect.Effect<void, StoreUnavailable> = Effect.suspend(() => {
    if (asking !== undefined) return Deferred.await(asking)
    const answered = Deferred.makeUnsafe<void, StoreUnavailable>()
    asking = answered
    const settled = Effect.onExit(askStore, (exit) =>
      Effect.sync(() => {
        asking = undefined
        Deferred.doneUnsafe(answered, Exit.asVoid(exit))
      }),
    )
    return Effect.andThen(Effect.forkIn(settled, scope, { startImmediately: true }), Deferred.await(answered))
  })

  const held = (now: number): number => (now < endsAt ? tokens : 0)

  const room = Effect.gen(function* () {
    const now = yield* monotonicMs
    if (held(now) > 0) return Math.max(0, held(now) - expected.size)
    if (now < askAgainAt) return 0
    if (!inDemand) return Math.max(0, portion - expected.size)
    // A store that hangs must not keep the worker from claiming other jobs.
    yield* Effect.raceFirst(Effect.interruptible(Effect.ignore(ask)), Effect.interruptible(Effect.sleep(answerLimitMs)))
    return Math.max(0, held(yield* monotonicMs) - expected.size)
  })

  const nextInMs = Effect.map(monotonicMs, (now) => {
    if (held(now) === 0 && now < askAgainAt) return Math.ceil(askAgainAt - now)
    return expected.size > 0 && expected.size >= (held(now) || portion) ? expectedPauseMs : undefined
  })

  const take = Effect.fnUntraced(function* (job: object) {
    const giveUpAt = (yield* monotonicMs) + waitInSlotMs
    for (let waited = false; ; waited = true) {
      const now = yield* monotonicMs
      if (held(now) > 0) {
        tokens -= 1
        if (tokens === 0) inDemand = true
        expected.delete(job)
        return waited
      }
      if (now >= askAgainAt) yield* ask
      else if (askAgainAt > giveUpAt) return yield* new ProviderPostponed({ delayMs: Math.ceil(askAgainAt - now) })
      else yield* Effect.sleep(askAgainAt - now)
    }
  })

  yield* Effect.addFinalizer(() => Effect.timeoutOption(giveBack, returnLimitMs))
  return {
    room,
    nextInMs,
    take: (job) =>
      Effect.acquireUseRelease(
        Effect.sync(() => (waiting += 1)),
        () => take(job),
        () => Effect.sync(() => (waiting -= 1)),
      ),
    expect: (job) => void expected.add(job),
    forget: (job) => void expected.delete(job),
  }
})
