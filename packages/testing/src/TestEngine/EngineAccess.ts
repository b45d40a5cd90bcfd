import { EngineClosed } from "@kiln/core/domain"
import type { EmbeddedEngine } from "@kiln/core"
import { embeddedContext, type EmbeddedServices } from "@kiln/core/effect"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"

/** Runs an effect with the engine's services. */
export type RunInEngine = <A, E>(effect: Effect.Effect<A, E, EmbeddedServices>) => Promise<A>

/** Access to the services of an engine until it is stopped. `stop` interrupts what still runs there and waits for it. */
export interface EngineAccess {
  readonly context: Context.Context<EmbeddedServices>
  readonly inside: RunInEngine
  readonly stop: EmbeddedEngine["stop"]
}

/** An hour: the timer never has anything to do. */
const holdMs = 3_600_000

export const accessEngine = (engine: Pick<EmbeddedEngine, "stop">): EngineAccess => {
  const { stop } = engine
  const context = embeddedContext(engine)
  const closing = new AbortController()
  const running = new Set<Promise<unknown>>()
  const run: RunInEngine = async (effect) => {
    closing.signal.throwIfAborted()
    // A handler may wait for a timer that does not keep the process alive, such as that of `AbortSignal.timeout`.
    const hold = setInterval(() => undefined, holdMs)
    try {
      return await Effect.runPromiseWith(context)(effect, { signal: closing.signal })
    } catch (error) {
      closing.signal.throwIfAborted()
      throw error
    } finally {
      clearInterval(hold)
    }
  }
  return {
    context,
    inside: (effect) => {
      const promise = run(effect)
      // Waiters get the failure. There may be no waiter: a test that leaves an attempt hanging still ends.
      const ended: Promise<unknown> = promise.catch(() => undefined).finally(() => running.delete(ended))
      running.add(ended)
      return promise
    },
    stop: async (options) => {
      closing.abort(new EngineClosed())
      await Promise.all(running)
      await stop(options)
    },
  }
}
