import { monitorEventLoopDelay } from "node:perf_hooks"
import * as Effect from "effect/Effect"
import { version } from "../version.ts"

/** Milliseconds between two measurements of the event loop. */
const resolutionMs = 20

/** Measures the event loop of this process until the scope closes, for the state that its worker publishes. */
export const workerProcess = Effect.acquireRelease(
  Effect.sync(() => {
    const delays = monitorEventLoopDelay({ resolution: resolutionMs })
    delays.enable()
    return delays
  }),
  (delays) => Effect.sync(() => delays.disable()),
).pipe(
  Effect.map((delays) => ({
    version,
    // Node measures from one turn of its own timer to the next.
    loopLagMs: () => {
      const lagMs = Math.max(0, delays.percentile(99) / 1e6 - resolutionMs)
      delays.reset()
      return Math.round(lagMs * 10) / 10
    },
  })),
)
