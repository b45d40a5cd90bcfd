import type * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import { monotonicMs } from "../domain/monotonicMs.ts"

/** While something goes on failing it is said again this often, and not each time: an hour's outage is no thousand lines. */
const repeatEveryMs = 60_000

/** What an operator hears of something that is tried again and again: that it fails, now and then that it still does, and that it works again. */
export const makeOutageLog = (what: string) => {
  let beganAt: number | undefined
  let saidAt = -Infinity
  return {
    failed: (cause: Cause.Cause<unknown>): Effect.Effect<void> =>
      Effect.flatMap(monotonicMs, (now) => {
        beganAt ??= now
        if (now - saidAt < repeatEveryMs) return Effect.void
        saidAt = now
        return Effect.logWarning(`${what}: failed; trying again`, cause)
      }),
    worked: Effect.suspend(() => {
      if (beganAt === undefined) return Effect.void
      const since = beganAt
      beganAt = undefined
      saidAt = -Infinity
      return Effect.flatMap(monotonicMs, (now) =>
        Effect.logInfo(`${what}: works again, after ${Math.round((now - since) / 1_000)} s`),
      )
    }),
  }
}
