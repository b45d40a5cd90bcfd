import type { ErrorCode } from "@kiln/core/domain"
import { AssertionError } from "./AssertionError.ts"
import { matches } from "./matches.ts"
import type {
  Done,
  Failed,
  JobNamed,
  JobOf,
  OutputFrom,
  PartOf,
  Remembers,
  RequestOf,
  SeenJob,
  SeenSubmission,
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

/** The job is done, and typed so from here on. */
export function assertDone<J extends SeenJob>(job: J): asserts job is Done<J> {
  insist("assertDone", doneVerdict(job))
}

/** The job failed, with this code where one is given, and is typed so from here on. */
export function assertFailed<J extends SeenJob>(job: J, errorCode?: ErrorCode): asserts job is Failed<J> {
  insist("assertFailed", failedVerdict(job, errorCode))
}

/** The job is done and brought this: of objects, the fields that are named. */
export function assertOutput<J extends SeenJob>(job: J, output: PartOf<OutputFrom<J>>): asserts job is Done<J> {
  insist("assertOutput", outputVerdict(job, output))
}

/** The job was charged, this amount where one is given: an exact decimal. */
export const assertCharged = (job: SeenJob, charge?: string | ExpectedCharge): void =>
  insist("assertCharged", chargedVerdict(job, charge))

/** How often, where it matters: 0 is not at all. */
export interface SubmittedOptions {
  readonly times?: number
}

/** Such a job was submitted, at least once or `times` times: of the request, the fields that are named. Resolves with them. */
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
