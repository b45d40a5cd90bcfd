import { type EmbeddedServices, EngineConfig } from "@kiln/core/effect"
import { Worker } from "@kiln/core/worker"
import { Context } from "effect"
import type { RunInEngine } from "./EngineScope.ts"
import type { TimeControl } from "./TimeControl.ts"
import type { VirtualTime } from "./VirtualTime.ts"

/** Length of one wait for a paused provider. */
const pauseStepMs = 5_000

/** Advances time until a job may run again, unless waiting cannot help. */
export interface RetryWait {
  /** Resets the wait for paused providers, after an attempt ran. */
  readonly reset: () => void
  /** Takes the times at which unclaimed jobs may be claimed, in Unix milliseconds. Returns `false` if waiting cannot help. */
  readonly waitForRunnable: (claimableAt: ReadonlyArray<number>) => Promise<boolean>
}

export const makeRetryWait = (
  context: Context.Context<EmbeddedServices>,
  runInEngine: RunInEngine,
  time: VirtualTime,
  { advanceTo }: TimeControl,
): RetryWait => {
  const worker = Context.get(context, Worker)
  const { brokenPauseMaxMs } = Context.get(context, EngineConfig).circuit
  let pausedMs = 0
  return {
    reset: () => {
      pausedMs = 0
    },
    waitForRunnable: async (claimableAt) => {
      const later = claimableAt.filter((at) => at > time.now())
      const next = later.reduce((a, b) => Math.min(a, b), Infinity)
      const mayBePaused = later.length < claimableAt.length && pausedMs <= brokenPauseMaxMs
      if (mayBePaused && (await runInEngine(worker.providers)).some(({ status }) => status === "paused")) {
        pausedMs += pauseStepMs
        await advanceTo(Math.min(next, time.now() + pauseStepMs))
        return true
      }
      if (later.length > 0) await advanceTo(next)
      return later.length > 0
    },
  }
}
