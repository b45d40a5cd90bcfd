import { type EmbeddedServices, EngineConfig } from "@kiln/core/effect"
import { Worker } from "@kiln/core/worker"
import * as Context from "effect/Context"
import type { RunInEngine } from "./EngineAccess.ts"
import type { TimeTravel } from "./TimeTravel.ts"
import type { VirtualTime } from "./VirtualTime.ts"

/** Milliseconds of one wait for a paused provider. */
const pauseStepMs = 5_000

/** Lets time pass until a job may run again: its delay is over, its provider resumes, or its rate has room, unless no wait can help. */
export interface RetryWait {
  /** Forgets earlier waits, because a job ran. */
  readonly reset: () => void
  /** Waits for the first of these times, unix milliseconds, at which jobs become claimable. Returns `false` if waiting cannot help. */
  readonly waitForNext: (claimableAt: ReadonlyArray<number>) => Promise<boolean>
}

export const makeRetryWait = (
  context: Context.Context<EmbeddedServices>,
  inside: RunInEngine,
  time: VirtualTime,
  { advanceTo }: TimeTravel,
): RetryWait => {
  const worker = Context.get(context, Worker)
  const { brokenPauseMaxMs } = Context.get(context, EngineConfig).circuit
  let pausedMs = 0
  return {
    reset: () => {
      pausedMs = 0
    },
    waitForNext: async (claimableAt) => {
      const later = claimableAt.filter((at) => at > time.now())
      const next = later.reduce((a, b) => Math.min(a, b), Infinity)
      const mayBePaused = later.length < claimableAt.length && pausedMs <= brokenPauseMaxMs
      if (mayBePaused && (await inside(worker.providers)).some(({ status }) => status === "paused")) {
        pausedMs += pauseStepMs
        await advanceTo(Math.min(next, time.now() + pauseStepMs))
        return true
      }
      const heldMs = later.length < claimableAt.length ? await inside(worker.heldBackMs) : undefined
      if (heldMs !== undefined) {
        await advanceTo(Math.min(next, time.now() + Math.max(1, heldMs)))
        return true
      }
      if (later.length > 0) await advanceTo(next)
      return later.length > 0
    },
  }
}
