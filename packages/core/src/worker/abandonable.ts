import { Effect, Fiber } from "effect"

/**
 * Runs others' code so that it cannot hold up who waits for it: an interruption is passed on to it and not waited for, should
 * it heed no signal or take its time to end.
 */
export const abandonable = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.flatMap(Effect.forkDetach(Effect.interruptible(effect), { startImmediately: true }), (fiber) =>
      Effect.onInterrupt(restore(Fiber.join(fiber)), () => Effect.sync(() => fiber.interruptUnsafe())),
    ),
  )
