import { ScheduleStore } from "@kiln/core/ports"
import { collectOrphans, deliverFinished, expireOverdue, fireSchedules, pruneOnce } from "@kiln/core/worker"
import * as Effect from "effect/Effect"
import type { RunInEngine } from "./EngineAccess.ts"
import type { VirtualTime } from "./VirtualTime.ts"

/** Number of sweeps during one `advance`, regardless of its length. */
const sweepsOnTheWay = 60
const shortestStrideMs = 1_000

/** Moves the virtual time. Sweeps what is overdue before it returns; in production the sweep comes a little later. */
export interface TimeTravel {
  readonly advanceTo: (unixMs: number) => Promise<void>
  /** Advances by a number of milliseconds. */
  readonly advance: (ms: number) => Promise<void>
  /** Moves to the time at which the next sleeping fiber wakes. Never ends if no fiber sleeps. */
  readonly advanceToNextWake: Effect.Effect<void>
}

/** Handles all due ticks, also those of which one look handles the first. */
const fireAll = Effect.repeat(fireSchedules, { until: (pauseMs) => pauseMs > 0 })

const sweep = Effect.all([expireOverdue, pruneOnce, collectOrphans, fireAll, deliverFinished], { discard: true })

/** The time of the next tick of a schedule that has not come yet; `Infinity` without one. */
const nextTickAt = Effect.flatMap(ScheduleStore, (store) =>
  Effect.map(store.nextSchedules(100), ({ now, schedules }) =>
    Math.min(...schedules.map(({ nextAt }) => nextAt ?? Infinity).filter((at) => at > now)),
  ),
)

export const makeTimeTravel = (time: VirtualTime, inside: RunInEngine): TimeTravel => {
  const advanceTo = async (unixMs: number) => {
    await time.moveTo(unixMs)
    await inside(sweep)
  }
  return {
    advanceTo,
    advance: async (ms) => {
      const target = time.now() + ms
      const strideMs = Math.max(shortestStrideMs, Math.ceil(ms / sweepsOnTheWay))
      do await advanceTo(Math.min(target, time.now() + strideMs, await inside(nextTickAt)))
      while (time.now() < target)
    },
    advanceToNextWake: Effect.suspend(() => {
      const at = time.nextAt()
      return at === undefined ? Effect.never : Effect.uninterruptible(Effect.promise(() => advanceTo(at)))
    }),
  }
}
