import * as Context from "effect/Context"
import type { Job } from "../domain/index.ts"

/** Called with each finished job of a kind. The attempt is 1-based. A rejection is retried. */
export type FinishHandler = (job: Job, attempt: number, signal: AbortSignal) => Promise<unknown>

/** The handlers of finished jobs by kind. Jobs of other kinds get no delivery. Empty by default. */
export const FinishHandlers = Context.Reference<ReadonlyMap<string, FinishHandler>>(
  "@kiln/core/engine/FinishHandlers",
  {
    defaultValue: () => new Map(),
  },
)
