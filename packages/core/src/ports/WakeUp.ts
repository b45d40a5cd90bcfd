import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import type { JobId } from "../domain/index.ts"

/** The reach of a notification: the process that sends it, or every process of the installation. */
export type WakeUpReach = "process" | "installation"

/**
 * Signals that there may be work, within one process or across several. Correctness never depends on it: workers also poll, only
 * less often where notifications reach every process.
 *
 * A store that can send notifications between processes (such as LISTEN/NOTIFY) provides this port beside its own. It also
 * delivers notifications of its own process, and completes `wait` whenever its reach changes, because it may have missed some in
 * between.
 */
export class WakeUp extends Context.Service<
  WakeUp,
  {
    /** Signals that a job may have become claimable. Never waits. */
    readonly notify: Effect.Effect<void>
    /** Completes at the next notification, or immediately if one arrived since the last wait. */
    readonly wait: Effect.Effect<void>
    /** Returns the current reach. Never waits. `installation`: notifications from every process arrive here. */
    readonly reach: Effect.Effect<WakeUpReach>
    /**
     * Reports, until the scope closes, which jobs finished in other processes; `"any"` means that some job may have finished.
     * Best effort: a caller that waits for a job also polls, less often if the reach is `installation`.
     */
    readonly onFinished: (hear: (jobs: ReadonlyArray<JobId> | "any") => void) => Effect.Effect<void, never, Scope.Scope>
  }
>()("@kiln/core/ports/WakeUp") {
  /** The implementation provided with the stores, otherwise one within this process. */
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
