import type { ErrorCode } from "@kiln/core/domain"
import { AssertionError } from "./AssertionError.ts"
import { matches } from "./matches.ts"
import {
  type Done,
  type Failed,
  type JobNamed,
  type JobOf,
  type OutputFrom,
  type PartOf,
  type Remembers,
  type RequestOf,
  type SeenJob,
  seenJob,
  type SeenSubmission,
} from "./SeenJob.ts"
import {
  chargedVerdict,
  doneVerdict,
  type ExpectedCharge,
  failedVerdict,
  outputVerdict,
  submittedVerdict,
  type Verdict,
} from "./verdicts.ts"

const insist = (operator: string, { actual, expected, message, pass }: Verdict): void => {
  if (!pass) throw new AssertionError(operator, message, actual, expected)
}

/** Asserts that the job is done, and narrows its type. */
export function assertDone<J extends SeenJob>(job: J): asserts job is Done<J> {
  insist("assertDone", doneVerdict(seenJob(job)))
}

/** Asserts that the job failed, with this code if given, and narrows its type. */
export function assertFailed<J extends SeenJob>(job: J, errorCode?: ErrorCode): asserts job is Failed<J> {
  insist("assertFailed", failedVerdict(seenJob(job), errorCode))
}

/** Asserts that the job is done with this output; of objects, only the given fields are compared. */
export function assertOutput<J extends SeenJob>(job: J, output: PartOf<OutputFrom<J>>): asserts job is Done<J> {
  insist("assertOutput", outputVerdict(seenJob(job), output))
}

/** Asserts that the job was charged, with this amount if given: an exact decimal. */
export const assertCharged = (job: SeenJob, charge?: string | ExpectedCharge): void =>
  insist("assertCharged", chargedVerdict(seenJob(job), charge))

/** `times`: the expected number of submissions; 0 for never. */
export interface SubmittedOptions {
  readonly times?: number
}

/** Asserts that a job was submitted at least once, or `times` times; of the request, only the given fields are compared. Resolves with the submissions. */
export const assertSubmitted = async <Engine extends Remembers, Name extends JobOf<Engine>["kind"]>(
  engine: Engine,
  kind: Name,
  request?: PartOf<RequestOf<Engine, Name>>,
  { times }: SubmittedOptions = {},
): Promise<ReadonlyArray<JobNamed<Engine, Name>>> => {
  const jobs: ReadonlyArray<SeenSubmission> = await engine.submitted()
  insist("assertSubmitted", submittedVerdict(jobs, kind, request, times))
  return jobs.filter((job): job is JobNamed<Engine, Name> => job.kind === kind && matches(job.request, request ?? {}))
}
