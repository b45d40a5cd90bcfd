import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Semaphore from "effect/Semaphore"
import { type CallSource, type CircuitLimits } from "../domain/Circuit.ts"
import type { JobMode, StoreUnavailable } from "../domain/index.ts"
import { monotonicMs } from "../domain/monotonicMs.ts"
import { makeCircuitBreaker, type ProviderPaused, type ProviderStanding } from "./circuitBreaker.ts"
import { type ProviderFailure, type ProviderPostponed, providerUnavailable } from "./ProviderError.ts"
import type { ProviderBounds } from "./ProviderPort.ts"

/**
 * Running jobs for each allowed call, including the job that makes it. One job is ready when a call ends, and no more occupy
 * slots that others need.
 */
const jobsPerCall = 2

/** A rate of all processes, as one process uses it. A `job` is any object that identifies a running job. */
export interface CallRate<out E> {
  /** The number of further jobs to claim now. */
  readonly room: Effect.Effect<number>
  /**
   * Milliseconds until there may be room: 0 if there is some now; `undefined` if the last answer of `room` was not 0, or if only the
   * jobs that run can make room.
   */
  readonly nextInMs: Effect.Effect<number | undefined>
  /** Takes a token and returns whether that took time. Fails with `ProviderPostponed` if it would take longer than a moment. */
  readonly take: (job: object) => Effect.Effect<boolean, ProviderPostponed | E>
  /** Says that a job that will take a token starts. */
  readonly expect: (job: object) => void
  /** Says that a job has ended. */
  readonly forget: (job: object) => void
}

/** Counts the running jobs that ask a provider. */
const countedJobs = (concurrency: number, isOpen: () => boolean) => {
  let running = 0
  /** The job that was claimed to probe it. Its call may not have begun. */
  let probing: object | undefined
  return {
    /** How many more its limit of concurrent calls allows. */
    left: (): number => (concurrency === 0 ? Infinity : Math.max(0, jobsPerCall * concurrency - running)),
    probes: (): boolean => probing !== undefined,
    count: (change: 1 | -1, job: object): void => {
      running += change
      if (change > 0 && isOpen()) probing ??= job
      if (change < 0 && probing === job) probing = undefined
    },
  }
}

/**
 * Guards one live provider: its circuit breaker, its limit of concurrent calls and its timeout in this process, and the rate of all
 * processes.
 */
const guardProvider = Effect.fnUntraced(function* <E3>(
  name: string,
  { callLimitMs, concurrency }: ProviderBounds,
  circuit: CircuitLimits,
  changed: Effect.Effect<void>,
  rate: CallRate<E3> | undefined,
) {
  const permits = concurrency > 0 ? yield* Semaphore.make(concurrency) : undefined
  const breaker = yield* makeCircuitBreaker(name, circuit, changed)
  const jobs = countedJobs(concurrency, breaker.isOpen)
  let calls = 0

  const callOnce = <A, E, E2>(
    mayBuy: Effect.Effect<void, E>,
    waited: boolean,
    call: Effect.Effect<A, E2>,
    source: CallSource | undefined,
  ) =>
    Effect.uninterruptibleMask((restore) =>
      Effect.gen(function* () {
        const { isProbe, leave } = yield* breaker.enter
        const timed = Effect.timeoutOrElse(disconnected(call), {
          duration: callLimitMs,
          orElse: () => Effect.fail(providerUnavailable(`no answer within ${callLimitMs / 1_000} s`)),
        })
        const recorded = Effect.gen(function* () {
          const beganAt = yield* monotonicMs
          const exit = yield* Effect.exit(restore(timed))
          yield* breaker.record(exit, isProbe, (yield* monotonicMs) - beganAt, source)
          return yield* exit
        })
        return yield* Effect.ensuring(waited ? Effect.andThen(restore(mayBuy), recorded) : recorded, leave)
      }),
    )

  return {
    standing: breaker.standing,
    /** Milliseconds until it is tried again; `undefined` unless it is paused. */
    nextTryInMs: breaker.nextTryInMs,
    /** The number of further jobs that need it to claim: 0 while it is paused, 1 to probe it, otherwise up to two for each allowed call. */
    room: Effect.map(breaker.passage, (passage) => {
      if (passage === "paused") return 0
      return passage === "one_call" ? Math.min(jobs.probes() ? 0 : 1, jobs.left()) : jobs.left()
    }),
    rate,
    /** Whether no further job is claimed before one of those that run has ended. */
    isFull: (): boolean => jobs.left() === 0,
    /** A job that asks it starts or ends. */
    countJobs: (change: 1 | -1, job: object): void => {
      jobs.count(change, job)
      if (change > 0) rate?.expect(job)
      else rate?.forget(job)
    },
    /** Makes a call within the bounds. Runs `mayBuy` once more if the call had to wait. */
    call: <A, E, E2>(
      job: object,
      mayBuy: Effect.Effect<void, E>,
      call: Effect.Effect<A, E2>,
      source: CallSource | undefined,
    ) =>
      Effect.suspend(() => {
        const waits = concurrency > 0 && calls >= concurrency
        // The token is taken last: one that waits for anything would be used at a time that the rate does not know.
        const once =
          rate === undefined
            ? callOnce(mayBuy, waits, call, source)
            : Effect.andThen(
                breaker.mayEnter,
                Effect.flatMap(rate.take(job), (waited) => callOnce(mayBuy, waits || waited, call, source)),
              )
        return Effect.acquireUseRelease(
          Effect.sync(() => void calls++),
          () => (permits === undefined ? once : permits.withPermit(once)),
          () => Effect.sync(() => void calls--),
        )
      }),
  }
})

type GuardedProvider<E> = Effect.Success<ReturnType<typeof guardProvider<E>>>

/**
 * Runs third-party code in a separate fiber. An interruption does not wait for that fiber, which may ignore its signal or take
 * long to end.
 */
const disconnected = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.flatMap(Effect.forkDetach(Effect.interruptible(effect), { startImmediately: true }), (fiber) =>
      Effect.onInterrupt(restore(Fiber.join(fiber)), () => Effect.sync(() => fiber.interruptUnsafe())),
    ),
  )

/**
 * Guards the live providers of this process, each by itself: limits concurrent calls and the rate of calls, times calls out, and
 * pauses a provider that fails or is broken. Most sandbox providers need no guard (`limitedInSandbox`).
 */
export class ProviderGuard extends Context.Service<
  ProviderGuard,
  {
    /**
     * Makes a call of a running job, which any object identifies, within the bounds of its provider, waiting while it has reached
     * its limit of concurrent calls. Runs `mayBuy` again after a wait. Fails without calling, with `ProviderPaused` if the provider
     * is paused, and with `ProviderPostponed` if its rate allows no call within a moment. Invalid answers count only with a source.
     */
    readonly call: <E>(
      name: string,
      job: object,
      mayBuy: Effect.Effect<void, E>,
      source?: CallSource,
    ) => <A, E2>(
      call: Effect.Effect<A, E2>,
    ) => Effect.Effect<A, E | E2 | ProviderPaused | ProviderFailure | ProviderPostponed | StoreUnavailable>
    /** Returns those of these providers that are guarded in this mode. */
    readonly guardedIn: (mode: JobMode, names: ReadonlyArray<string>) => ReadonlyArray<string>
    /** The number of further jobs that need all of these providers to claim now: 0 while one is paused, `Infinity` without limits. */
    readonly room: (names: ReadonlyArray<string>) => Effect.Effect<number>
    /** Whether the end of a running job may let another be claimed, because it makes room with a provider. */
    readonly isFull: () => boolean
    /** The rates of these providers. */
    readonly rates: (names: ReadonlyArray<string>) => ReadonlyArray<CallRate<StoreUnavailable>>
    /** Says that a job that asks these providers starts (1) or has ended (-1): running jobs count against their room. */
    readonly countJobs: (names: ReadonlyArray<string>, change: 1 | -1, job: object) => void
    /** Milliseconds until the first paused provider is tried again; `undefined` when none is paused. */
    readonly nextTryInMs: Effect.Effect<number | undefined>
    readonly standings: Effect.Effect<ReadonlyArray<ProviderStanding>>
    /** Completes when a provider is paused or resumes. */
    readonly changed: Effect.Effect<void>
  }
>()("@kiln/core/providers/ProviderGuard") {}

/**
 * Guards these providers, by name. A provider that is not among them is called without limits. Those of `inSandbox` are guarded for
 * sandbox jobs as well.
 */
export const makeProviderGuard = Effect.fnUntraced(function* (
  bounds: ReadonlyMap<string, ProviderBounds>,
  circuit: CircuitLimits,
  rateOf: (name: string) => CallRate<StoreUnavailable> | undefined = () => undefined,
  inSandbox: ReadonlySet<string> = new Set(),
) {
  let nextChange = Deferred.makeUnsafe<void>()
  const changed = Effect.sync(() => {
    const over = nextChange
    nextChange = Deferred.makeUnsafe<void>()
    Deferred.doneUnsafe(over, Effect.void)
  })
  const guarded = new Map<string, GuardedProvider<StoreUnavailable>>()
  for (const [name, limits] of bounds)
    guarded.set(name, yield* guardProvider(name, limits, circuit, changed, rateOf(name)))
  return ProviderGuard.of({
    call: (name, job, mayBuy, source) => (call) => guarded.get(name)?.call(job, mayBuy, call, source) ?? call,
    guardedIn: (mode, names) => (mode === "live" ? names : names.filter((name) => inSandbox.has(name))),
    room: (names) =>
      Effect.map(
        Effect.forEach(names, (name) => guarded.get(name)?.room ?? Effect.succeed(Infinity)),
        (rooms) => Math.min(...rooms),
      ),
    isFull: () => [...guarded.values()].some((provider) => provider.isFull()),
    rates: (names) => names.flatMap((name) => guarded.get(name)?.rate ?? []),
    countJobs: (names, change, job) => {
      for (const name of names) guarded.get(name)?.countJobs(change, job)
    },
    nextTryInMs: Effect.map(
      Effect.forEach([...guarded.values()], ({ nextTryInMs }) => nextTryInMs),
      (waits) => {
        const known = waits.filter((ms) => ms !== undefined)
        return known.length === 0 ? undefined : Math.min(...known)
      },
    ),
    standings: Effect.forEach([...guarded.values()], ({ standing }) => standing),
    changed: Effect.suspend(() => Deferred.await(nextChange)),
  })
})
