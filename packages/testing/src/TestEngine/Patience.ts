import { type EmbeddedServices, EngineConfig } from "@kiln/core/effect"
import { Worker } from "@kiln/core/worker"
import { Context } from "effect"
import type { Inside } from "./Inside.ts"
import type { Passing } from "./Passing.ts"
import type { VirtualTime } from "./VirtualTime.ts"

/** How long is waited at once for a provider that is paused. */
const pauseStepMs = 5_000

/** Lets time pass until something may run again, as long as there is hope. */
export interface Patience {
  /** Something ran: there is hope again. */
  readonly reset: () => void
  /** Given when jobs may be claimed, unix milliseconds, of which none could be. `false` where waiting helps nothing. */
  readonly passOn: (claimableAt: ReadonlyArray<number>) => Promise<boolean>
}

export const makePatience = (
  context: Context.Context<EmbeddedServices>,
  inside: Inside,
  time: VirtualTime,
  { passTo }: Passing,
): Patience => {
  const worker = Context.get(context, Worker)
  const { brokenPauseMaxMs } = Context.get(context, EngineConfig).circuit
  let pausedMs = 0
  return {
    reset: () => {
      pausedMs = 0
    },
    passOn: async (claimableAt) => {
      const later = claimableAt.filter((at) => at > time.now())
      const next = later.reduce((a, b) => Math.min(a, b), Infinity)
      const mayBePaused = later.length < claimableAt.length && pausedMs <= brokenPauseMaxMs
      if (mayBePaused && (await inside(worker.providers)).some(({ status }) => status === "paused")) {
        pausedMs += pauseStepMs
        await passTo(Math.min(next, time.now() + pauseStepMs))
        return true
      }
      if (later.length > 0) await passTo(next)
      return later.length > 0
    },
  }
}
