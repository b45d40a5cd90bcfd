import { WakeUp } from "@kiln/core/ports"
import type { WakeUpReach } from "../../src/ports/WakeUp.ts"
import { Effect, Latch } from "effect"

/** A place where processes tell each other that there is work, as a database would carry it between them. */
export const makeChannel = (reach: WakeUpReach = "installation") => {
  const listeners = new Set<Latch.Latch>()
  const channel = {
    reach,
    /** True if notifications are received. */
    isDeaf: false,
    /** Number of notifications sent, received or not. */
    said: 0,
    /** Is heard by all, deaf or not. */
    ring: Effect.sync(() => {
      for (const listener of listeners) listener.openUnsafe()
    }),
    /** The wake-up of one process. */
    join: (): WakeUp["Service"] => {
      const latch = Latch.makeUnsafe(false)
      listeners.add(latch)
      return WakeUp.of({
        notify: Effect.suspend(() => {
          channel.said += 1
          return channel.isDeaf ? Effect.void : channel.ring
        }),
        wait: Effect.andThen(latch.await, Effect.asVoid(latch.close)),
        reach: Effect.sync(() => channel.reach),
        onFinished: () => Effect.void,
      })
    },
  }
  return channel
}
