import { Context, Effect, Latch, Layer } from "effect"

/** A hint that there may be work, within one process or across several. Correctness never depends on it: workers poll as well. */
export class WakeUp extends Context.Service<
  WakeUp,
  {
    /** Says that a job may have become claimable. Never waits. */
    readonly notify: Effect.Effect<void>
    /** Completes at the next notification, or at once if one came since the last wait. */
    readonly wait: Effect.Effect<void>
  }
>()("@kiln/core/ports/WakeUp") {
  /** Within this process. */
  static readonly layer = Layer.effect(
    WakeUp,
    Effect.gen(function* () {
      const latch = yield* Latch.make(false)
      return WakeUp.of({
        notify: Effect.asVoid(latch.open),
        wait: Effect.andThen(latch.await, Effect.asVoid(latch.close)),
      })
    }),
  )
}
