import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import { EngineClosed } from "@kiln/core/domain"
import { embeddedContext } from "@kiln/core/effect"
import type { MountedEngine } from "./MountOptions.ts"
import type { MountNeeds } from "./mountService.ts"

/** Runs an effect with the services of an engine. Rejects with its error, and with an `AbortError` after `stop`. */
export const inEngine = async <A, E>(
  engine: MountedEngine,
  effect: Effect.Effect<A, E, MountNeeds | Scope.Scope>,
): Promise<A> => {
  const context = embeddedContext(engine)
  if (Context.get(context, Scope.Scope).state._tag === "Closed") throw new EngineClosed()
  const exit = await Effect.runPromiseExitWith(context)(effect)
  if (Exit.isSuccess(exit)) return exit.value
  throw Cause.squash(exit.cause)
}

/** Builds something that lives as long as the engine. A failed build is released immediately. */
export const attached = <A, E>(
  effect: Effect.Effect<A, E, MountNeeds | Scope.Scope>,
): Effect.Effect<A, E, MountNeeds | Scope.Scope> =>
  Effect.flatMap(Effect.scope, (scope) =>
    Effect.flatMap(Scope.fork(scope), (own) =>
      Effect.onError(Effect.provideService(effect, Scope.Scope, own), (cause) =>
        Scope.close(own, Exit.failCause(cause)),
      ),
    ),
  )
