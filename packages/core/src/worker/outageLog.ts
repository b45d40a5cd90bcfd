import type * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import { monotonicMs } from "../domain/monotonicMs.ts"

/** Interval between log lines during an outage, so that an hour's outage does not fill the log. */
const repeatEveryMs = 60_000

/** Logs the outage of a repeated task: when it starts, once a minute while it lasts, and when it is over. */
export const makeOutageLog = (what: string) => {
  let beganAt: number | undefined
  let loggedAt = -Infinity
  return {
    failed: (cause: Cause.Cause<unknown>): Effect.Effect<void> =>
      Effect.flatMap(monotonicMs, (now) => {
        beganAt ??= now
        if (now - loggedAt < repeatEveryMs) return Effect.void
        loggedAt = now
        return Effect.logWarning(`${what}: failed; trying again`, cause)
      }),
    worked: Effect.suspend(() => {
      if (beganAt === undefined) return Effect.void
      const since = beganAt
      beganAt = undefined
      loggedAt = -Infinity
      return Effect.flatMap(monotonicMs, (now) =>
        Effect.logInfo(`${what}: works again, after ${Math.round((now - since) / 1_000)} s`),
      )
    }),
  }
}
