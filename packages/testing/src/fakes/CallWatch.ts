import { Effect } from "effect"
import { type Behavior, takesTime } from "./Behavior.ts"

/** Tells who waits for it what becomes of the calls of fakes. */
export interface CallWatch {
  /** Something is different. */
  readonly notify: () => void
  /** Waits until it is so. */
  readonly until: (reached: () => boolean) => Effect.Effect<void>
  /** Waits until some call waits for time to pass. */
  readonly untilWaiting: Effect.Effect<void>
  /** Performs a behavior, known as one that waits for time where it does. */
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
