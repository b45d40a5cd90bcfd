import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import type { JobId } from "../domain/index.ts"

/** How far a notification is heard: in the process that sends it, or in every process of the installation. */
export type WakeUpReach = "process" | "installation"

/**
 * A hint that there may be work, within one process or across several. Correctness never depends on it: workers look by
 * themselves as well, only less often where a hint reaches everybody.
 *
 * A store that can carry hints between processes (LISTEN/NOTIFY, say) provides this port beside its own. Such a one hears
 * its own process's notifications as well, and completes `wait` also whenever its reach changes: while it heard nothing,
 * something may have been said.
 */
export class WakeUp extends Context.Service<
  WakeUp,
  {
    /** Says that a job may have become claimable. Never waits. */
    readonly notify: Effect.Effect<void>
    /** Completes at the next notification, or at once if one came since the last wait. */
    readonly wait: Effect.Effect<void>
    /** How far a notification is heard right now. Never waits. `installation`: what any process says is heard here. */
    readonly reach: Effect.Effect<WakeUpReach>
    /**
     * Says, until the scope closes, which jobs ended in other processes, as far as it hears of them; `"any"` where only that
     * some job may have. A hint like the others: who waits for a job looks by itself as well, seldom where the reach is
     * `installation`.
     */
    readonly onFinished: (hear: (jobs: ReadonlyArray<JobId> | "any") => void) => Effect.Effect<void, never, Scope.Scope>
  }
>()("@kiln/core/ports/WakeUp") {
  /** The one that came with the stores this is built upon, or else one within this process. */
  static readonly layer: Layer.Layer<WakeUp> = Layer.effect(
    WakeUp,
    Effect.gen(function* () {
      const ambient = Context.getOption(yield* Effect.context(), WakeUp)
      if (Option.isSome(ambient)) return ambient.value
      const latch = yield* Latch.make(false)
      return WakeUp.of({
        notify: Effect.asVoid(latch.open),
        wait: Effect.andThen(latch.await, Effect.asVoid(latch.close)),
        reach: Effect.succeed("process"),
        onFinished: () => Effect.void,
      })
    }),
  )
}
