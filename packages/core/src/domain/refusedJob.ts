import type { CreateOutcome, NewJob } from "./acceptance.ts"
import { LiveNotActive, SpendCapReached } from "./Errors.ts"
import { failedOutput } from "./Job.ts"
import type { JsonObject } from "./Json.ts"

/** A job that a completion creates and the store refuses. */
export interface RefusedJob {
  /** The job to create in its place: the same without a price, so that nothing refuses it. The event `refused` ends it in the same step. */
  readonly item: NewJob
  /** What the failed job tells its caller. */
  readonly output: JsonObject
}

/**
 * Returns how a job is created that a completion brings along, after `createJobs` has answered for it: `undefined` if it exists now. A
 * refusal must neither undo a completion whose provider was paid, nor pass a spend cap, nor leave the completion without its job, so the
 * job exists as failed.
 */
export const refusedJob = (item: NewJob, outcome: CreateOutcome): RefusedJob | undefined => {
  const reason = reasonOf(outcome)
  return reason === undefined
    ? undefined
    : { item: { ...item, gate: null, maxUsage: null }, output: failedOutput(reason) }
}

const reasonOf = (outcome: CreateOutcome): string | undefined => {
  switch (outcome._tag) {
    case "Created":
    case "Replayed":
    case "KeyReused":
      return undefined
    case "GateClosed":
      return new LiveNotActive({ missing: outcome.missing }).message
    case "SpendCapReached":
      return new SpendCapReached(outcome.refusal).message
    case "TickTaken":
    case "Duplicate":
    case "NotRetryable":
    case "UploadRefused":
    case "StorageFull":
    case "QueueFull":
      throw new TypeError(`createJobs returned ${outcome._tag} for a follow-up, which must not depend on that`)
  }
}
