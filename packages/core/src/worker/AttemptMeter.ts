import * as Context from "effect/Context"
import type { Charge, Job } from "../domain/index.ts"

/**
 * The outcome of an attempt. `failed`: with an error, whether or not another attempt follows. `deferred`: something was unavailable.
 * `released`: the worker stopped or a switch was turned off. `lease_lost`: nothing could be written. `stalled`: the same, because
 * the process was frozen.
 */
export type AttemptOutcome = "done" | "failed" | "deferred" | "released" | "lease_lost" | "stalled"

/** Measures the attempts of this process. It is called while jobs run, so it must be quick, and must not throw. */
export interface AttemptMeter {
  /** An attempt begins. The job is as the claim returned it, so `waitedMs` includes the wait that has just ended. */
  readonly began: (job: Job) => void
  /** An attempt has ended, and its end is written. `charge` is set if it completed a live job. */
  readonly ended: (job: Job, outcome: AttemptOutcome, durationMs: number, charge: Charge | null) => void
}

/** The meter of this process; nothing is measured without one. */
export const AttemptMeter = Context.Reference<AttemptMeter | undefined>("@kiln/core/worker/AttemptMeter", {
  defaultValue: () => undefined,
})
