import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type { CircuitLimits } from "../domain/Circuit.ts"
import type { ProviderPaused, ProviderStanding } from "./circuitBreaker.ts"
import { type GuardedProvider, guardProvider } from "./GuardedProvider.ts"
import type { ProviderFailure } from "./ProviderError.ts"
import type { ProviderBounds } from "./ProviderPort.ts"

/**
 * Guards the live providers of this process, each by itself: limits concurrent calls, times calls out, and pauses a provider
 * that fails or is broken. Sandbox providers need no guard.
 */
export class ProviderGuard extends Context.Service<
  ProviderGuard,
  {
    /**
     * Makes a call within the bounds of its provider, waiting while it has reached its limit of concurrent calls. Runs
     * `mayBuy` again after a wait. Fails with `ProviderPaused` without calling if the provider is paused.
     */
    readonly call: <E>(
      name: string,
      mayBuy: Effect.Effect<void, E>,
    ) => <A, E2>(call: Effect.Effect<A, E2>) => Effect.Effect<A, E | E2 | ProviderPaused | ProviderFailure>
    /** How many more jobs that ask all of these providers should be claimed now: 0 while one is paused, `Infinity` without limits. */
    readonly room: (names: ReadonlyArray<string>) => Effect.Effect<number>
    /** Says that a job that asks these providers starts (1) or has ended (-1): running jobs count against their room. */
    readonly countJobs: (names: ReadonlyArray<string>, change: 1 | -1) => void
    /** Milliseconds until the first paused provider is tried again; `undefined` when none is paused. */
    readonly nextTryInMs: Effect.Effect<number | undefined>
    readonly standings: Effect.Effect<ReadonlyArray<ProviderStanding>>
    /** Completes when a provider is paused or resumes. */
    readonly changed: Effect.Effect<void>
  }
>()("@kiln/core/providers/ProviderGuard") {}

/** Guards these providers, by name. A provider that is not among them is called without limits. */
export const makeProviderGuard = Effect.fnUntraced(function* (
  bounds: ReadonlyMap<string, ProviderBounds>,
  circuit: CircuitLimits,
) {
  let nextChange = Deferred.makeUnsafe<void>()
  const changed = Effect.sync(() => {
    const over = nextChange
    nextChange = Deferred.makeUnsafe<void>()
    Deferred.doneUnsafe(over, Effect.void)
  })
  const guarded = new Map<string, GuardedProvider>()
  for (const [name, limits] of bounds) guarded.set(name, yield* guardProvider(name, limits, circuit, changed))
  return ProviderGuard.of({
    call: (name, mayBuy) => (call) => guarded.get(name)?.call(mayBuy, call) ?? call,
    room: (names) =>
      Effect.map(
        Effect.forEach(names, (name) => guarded.get(name)?.room ?? Effect.succeed(Infinity)),
        (rooms) => Math.min(...rooms),
      ),
    countJobs: (names, change) => {
      for (const name of names) guarded.get(name)?.countJobs(change)
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
