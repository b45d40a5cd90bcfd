import { collectOrphans, expireOverdue, pruneOnce } from "@kiln/core/worker"
import { Effect } from "effect"
import type { Inside } from "./Inside.ts"
import type { VirtualTime } from "./VirtualTime.ts"

/** However much time is to pass, it is swept so often on the way. */
const sweepsOnTheWay = 60
const shortestStrideMs = 1_000

/** Time passes, and what is overdue by then is swept: not a while later, as in production, where nobody waits for it. */
export interface Passing {
  readonly passTo: (unixMs: number) => Promise<void>
  /** Milliseconds. */
  readonly advance: (ms: number) => Promise<void>
  /** To when the next one who sleeps wakes. Never ends where nobody does. */
  readonly passNext: Effect.Effect<void>
}

const sweep = Effect.all([expireOverdue, pruneOnce, collectOrphans], { discard: true })

export const makePassing = (time: VirtualTime, inside: Inside): Passing => {
  const passTo = async (unixMs: number) => {
    await time.moveTo(unixMs)
    await inside(sweep)
  }
  return {
    passTo,
    advance: async (ms) => {
      const target = time.now() + ms
      const strideMs = Math.max(shortestStrideMs, Math.ceil(ms / sweepsOnTheWay))
      do await passTo(Math.min(target, time.now() + strideMs))
      while (time.now() < target)
    },
    passNext: Effect.suspend(() => {
      const at = time.nextAt()
      return at === undefined ? Effect.never : Effect.uninterruptible(Effect.promise(() => passTo(at)))
    }),
  }
}
