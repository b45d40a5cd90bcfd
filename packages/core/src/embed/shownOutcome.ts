import * as Result from "effect/Result"
import type { AcceptedJob, JobOutcomes } from "../engine/index.ts"
import type { SubmitOutcome, SubmittedJob } from "./EmbeddedEngine.ts"
import { toJobResult } from "./toJobResult.ts"

// Which kind a job has is what its caller submitted.

/** Converts an accepted job for the program. */
export const shownSubmission = ({ deduplicated, job }: AcceptedJob, currency: string): SubmittedJob<never> => {
  const result: object = toJobResult(job, currency)
  return (deduplicated === true ? { ...result, deduplicated } : result) as never
}

/** Converts the outcome of one job of a list. */
export const shownOutcome = (outcome: JobOutcomes[number], currency: string): SubmitOutcome<never> => {
  if (Result.isFailure(outcome)) return { error: outcome.failure }
  const { deduplicated, job, replayed } = outcome.success
  return {
    job: toJobResult<never>(job, currency),
    replayed,
    ...(deduplicated === true && { deduplicated: true as const }),
  }
}
