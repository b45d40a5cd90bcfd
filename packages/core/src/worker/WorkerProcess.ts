import * as Context from "effect/Context"

/** Facts about the process of a worker that only its program knows. */
export interface WorkerProcess {
  /** The version of the program; `null` if unknown. */
  readonly version: string | null
  /** Returns the lag of the event loop since the previous call (p99), in milliseconds; `null` if it is not measured. */
  readonly loopLagMs: () => number | null
}

export const WorkerProcess = Context.Reference<WorkerProcess>("@kiln/core/worker/WorkerProcess", {
  defaultValue: () => ({ version: null, loopLagMs: () => null }),
})
