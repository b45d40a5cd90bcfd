import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type { CallSource, CircuitLimits } from "../domain/Circuit.ts"
import type { JobMode, StoreUnavailable } from "../domain/index.ts"
import type { ProviderPaused, ProviderStanding } from "./circuitBreaker.ts"
import { type CallRate, type GuardedProvider, guardProvider } from "./GuardedProvider.ts"
import type { ProviderFailure, ProviderPostponed } from "./ProviderError.ts"
import type { ProviderBounds } from "./ProviderPort.ts"

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
