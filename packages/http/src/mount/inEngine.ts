import { Cause, Effect, Exit, Scope } from "effect"
import { embeddedContext } from "@kiln/core/effect"
import type { MountedEngine } from "./MountOptions.ts"
import type { MountNeeds } from "./mountService.ts"

/** Builds something on the services of an engine, which ends when that is stopped. Rejects with what the effect fails with. */
export const inEngine = async <A, E>(
  engine: MountedEngine,
  effect: Effect.Effect<A, E, MountNeeds | Scope.Scope>,
): Promise<A> => {
  const exit = await Effect.runPromiseExitWith(embeddedContext(engine))(
    // What was begun and then failed ends at once.
    Effect.flatMap(Effect.scope, (scope) =>
      Effect.flatMap(Scope.fork(scope), (own) =>
        Effect.onError(Effect.provideService(effect, Scope.Scope, own), (cause) =>
          Scope.close(own, Exit.failCause(cause)),
        ),
      ),
    ),
  )
  if (Exit.isSuccess(exit)) return exit.value
  throw Cause.squash(exit.cause)
}
