import { Cause, Effect, Exit, Scope } from "effect"
import { embeddedContext } from "@kiln/core/effect"
import type { MountedEngine } from "./MountOptions.ts"
import type { MountNeeds } from "./mountService.ts"

/** Builds something on the services of an engine, which ends with it. Rejects with what the effect fails with. */
export const inEngine = async <A, E>(
  engine: MountedEngine,
  effect: Effect.Effect<A, E, MountNeeds | Scope.Scope>,
): Promise<A> => {
  const context = embeddedContext(engine)
  const scope = Scope.makeUnsafe()
  const close = () => Effect.runPromiseWith(context)(Scope.close(scope, Exit.void))
  const exit = await Effect.runPromiseExitWith(context)(Effect.provideService(effect, Scope.Scope, scope))
  if (Exit.isFailure(exit)) {
    await close()
    throw Cause.squash(exit.cause)
  }
  void whenStopped(engine).then(close)
  return exit.value
}

/** An engine tells its end by that of its events. */
const whenStopped = async (engine: MountedEngine): Promise<void> => {
  const events = engine.events()[Symbol.asyncIterator]()
  while ((await events.next()).done !== true);
}
