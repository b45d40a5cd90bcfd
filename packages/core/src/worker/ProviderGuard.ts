import { Context, Deferred, Effect, Layer } from "effect"
import type { AttemptError } from "../kinds/AttemptContext.ts"
import { type ProviderName, providerNames, Providers, type ProviderStanding } from "../ports/index.ts"
import { makeProviderPost, type ProviderPost } from "./ProviderPost.ts"

/**
 * Stands before the live providers of this process, each by itself: how many calls at once, for how long, and whether the
 * provider is called at all or paused, because it is failing or broken. Sandbox providers need no guard.
 */
export class ProviderGuard extends Context.Service<
  ProviderGuard,
  {
    /**
     * Makes a call, within the bounds of its provider. Waits for a place where it has no free one; `mayBuy` is asked once
     * more after every wait. A paused provider is not called: `ProviderPaused`.
     */
    readonly through: (
      name: ProviderName,
      mayBuy: Effect.Effect<void, AttemptError>,
    ) => <A>(call: Effect.Effect<A, AttemptError>) => Effect.Effect<A, AttemptError>
    /** How many jobs that ask these providers should be claimed now: none while one is paused; `Infinity` without bounds. */
    readonly room: (names: ReadonlyArray<ProviderName>) => Effect.Effect<number>
    /** Does something with a job in hand that asks these providers. */
    readonly holding: (
      names: ReadonlyArray<ProviderName>,
    ) => <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
    /** Milliseconds until the first paused provider is tried again; `undefined` when none is paused. */
    readonly nextTryInMs: Effect.Effect<number | undefined>
    readonly standings: Effect.Effect<ReadonlyArray<ProviderStanding>>
    /** Completes when one is paused, or no longer. */
    readonly changed: Effect.Effect<void>
  }
>()("@kiln/core/worker/ProviderGuard") {
  static readonly layer: Layer.Layer<ProviderGuard, never, Providers> = Layer.effect(
    ProviderGuard,
    Effect.gen(function* () {
      const { live } = yield* Providers
      let nextChange = Deferred.makeUnsafe<void>()
      const changed = Effect.sync(() => {
        const over = nextChange
        nextChange = Deferred.makeUnsafe<void>()
        Deferred.doneUnsafe(over, Effect.void)
      })
      const posts = new Map<ProviderName, ProviderPost>()
      for (const name of providerNames)
        if (live[name] !== undefined) posts.set(name, yield* makeProviderPost(name, changed))
      return ProviderGuard.of({
        through: (name, mayBuy) => (call) => posts.get(name)?.through(mayBuy, call) ?? call,
        room: (names) =>
          Effect.map(
            Effect.forEach(names, (name) => posts.get(name)?.room ?? Effect.succeed(Infinity)),
            (rooms) => Math.min(...rooms),
          ),
        holding: (names) => (effect) => {
          const holds = (by: 1 | -1) => Effect.sync(() => names.forEach((name) => posts.get(name)?.holds(by)))
          return Effect.acquireUseRelease(
            holds(1),
            () => effect,
            () => holds(-1),
          )
        },
        nextTryInMs: Effect.map(
          Effect.forEach([...posts.values()], ({ nextTryInMs }) => nextTryInMs),
          (waits) => {
            const known = waits.filter((ms) => ms !== undefined)
            return known.length === 0 ? undefined : Math.min(...known)
          },
        ),
        standings: Effect.forEach([...posts.values()], ({ standing }) => standing),
        changed: Effect.suspend(() => Deferred.await(nextChange)),
      })
    }),
  )
}
