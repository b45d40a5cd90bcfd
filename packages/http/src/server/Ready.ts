import * as Effect from "effect/Effect"
import type { Refusal } from "./Refusal.ts"

/** The result of a check: at once, or after a step that may wait or fail. Steps cost the frequent requests more than most checks. */
export type Ready<A extends object> = A | Effect.Effect<A, Refusal>

/** Continues with the result of a check. */
export const whenReady = <A extends object, B, E>(
  ready: Ready<A>,
  next: (result: A) => Effect.Effect<B, E>,
): Effect.Effect<B, E | Refusal> => (Effect.isEffect(ready) ? Effect.flatMap(ready, next) : next(ready))

/** Returns the check as a step. */
export const asStep = <A extends object>(ready: Ready<A>): Effect.Effect<A, Refusal> =>
  Effect.isEffect(ready) ? ready : Effect.succeed(ready)
