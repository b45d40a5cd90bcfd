import * as Effect from "effect/Effect"
import { type Behavior, takesTime } from "./Behavior.ts"

/** Notifies waiting fibers about calls of fakes. */
export interface CallWatch {
  /** Signals a change. */
  readonly notify: () => void
  /** Waits until the condition holds. */
  readonly until: (reached: () => boolean) => Effect.Effect<void>
  /** Waits until any call waits for time to pass. */
  readonly untilWaiting: Effect.Effect<void>
  /** Performs a behavior, and registers it while it waits for time. */
  readonly inTime: <A, E>(behavior: Behavior<A>, performed: Effect.Effect<A, E>) => Effect.Effect<A, E>
}

export const makeCallWatch = (): CallWatch => {
  const notices = new Set<() => void>()
  let inTime = 0
  const notify = () => {
    for (const notice of notices) notice()
  }
  const until = (reached: () => boolean) =>
    Effect.callback<void>((resume) => {
      const notice = () => {
        if (!reached()) return
        notices.delete(notice)
        resume(Effect.void)
      }
      notices.add(notice)
      notice()
      return Effect.sync(() => notices.delete(notice))
    })
  const enter = Effect.sync(() => {
    inTime++
    notify()
  })
  const leave = Effect.sync(() => void inTime--)
  return {
    notify,
    until,
    untilWaiting: until(() => inTime > 0),
    inTime: (behavior, performed) =>
      takesTime(behavior)
        ? Effect.acquireUseRelease(
            enter,
            () => performed,
            () => leave,
          )
        : performed,
  }
}
