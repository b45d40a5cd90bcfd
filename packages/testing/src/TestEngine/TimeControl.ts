import { collectOrphans, expireOverdue, pruneOnce } from "@kiln/core/worker"
import { Effect } from "effect"
import type { RunInEngine } from "./EngineScope.ts"
import type { VirtualTime } from "./VirtualTime.ts"

/** Maximum number of sweeps per advance, however long it is. */
const sweepsOnTheWay = 60
const shortestStrideMs = 1_000

/** Advances time and sweeps overdue records immediately, rather than a while later as in production. */
export interface TimeControl {
  readonly advanceTo: (unixMs: number) => Promise<void>
  /** Advances by a number of milliseconds. */
  readonly advance: (ms: number) => Promise<void>
  /** Advances to the next wake-up of a sleeping fiber. Never ends if no fiber is sleeping. */
  readonly advanceToNextWake: Effect.Effect<void>
}

const sweep = Effect.all([expireOverdue, pruneOnce, collectOrphans], { discard: true })

export const makeTimeControl = (time: VirtualTime, runInEngine: RunInEngine): TimeControl => {
  const advanceTo = async (unixMs: number) => {
    await time.moveTo(unixMs)
    await runInEngine(sweep)
  }
  return {
    advanceTo,
    advance: async (ms) => {
      const target = time.now() + ms
      const strideMs = Math.max(shortestStrideMs, Math.ceil(ms / sweepsOnTheWay))
      do await advanceTo(Math.min(target, time.now() + strideMs))
      while (time.now() < target)
    },
    advanceToNextWake: Effect.suspend(() => {
      const at = time.nextAt()
      return at === undefined ? Effect.never : Effect.uninterruptible(Effect.promise(() => advanceTo(at)))
    }),
  }
}
