import type { ErrorCode } from "@kiln/core/domain"
import { matches } from "./matches.ts"
import type { SeenJob, SeenSubmission } from "./SeenJob.ts"

/** The result of an assertion. */
export interface Verdict {
  readonly pass: boolean
  /** Describes the failure if it did not pass, or the failure of its negation if it did. */
  readonly message: string
  readonly actual: unknown
  readonly expected: unknown
}

/** Describes the state of a job in a few words. */
const standing = ({ attempts, errorCode, status }: SeenJob): string => {
  const after = attempts === 1 ? "after 1 attempt" : `after ${attempts} attempts`
  return status === "failed" ? `it failed with ${errorCode} ${after}` : `it is ${status} ${after}`
}

const about = ({ id, kind }: SeenJob): string => `the ${kind} job ${id}`

export const doneVerdict = (job: SeenJob): Verdict => {
  const pass = job.status === "done"
  const wanted = pass ? "not to be done" : "to be done"
  return { pass, message: `expected ${about(job)} ${wanted}: ${standing(job)}`, actual: job.status, expected: "done" }
}

export const failedVerdict = (job: SeenJob, errorCode?: ErrorCode): Verdict => {
  const pass = job.status === "failed" && (errorCode === undefined || job.errorCode === errorCode)
  const wanted = `${pass ? "not to " : "to "}have failed${errorCode === undefined ? "" : ` with ${errorCode}`}`
  return {
    pass,
    message: `expected ${about(job)} ${wanted}: ${standing(job)}`,
    actual: job.errorCode ?? job.status,
    expected: errorCode ?? "failed",
  }
}

export const outputVerdict = (job: SeenJob, output: object): Verdict => {
  if (job.status !== "done") return { ...doneVerdict(job), expected: output }
  const pass = matches(job.output, output)
  return {
    pass,
    message: `expected ${about(job)} ${pass ? "not to" : "to"} have the output ${shown(output)}, but it has ${shown(job.output)}`,
    actual: job.output,
    expected: output,
  }
}

/** The expected charge of a job: an exact decimal, and optionally its currency. */
export interface ExpectedCharge {
  readonly amount: string
  readonly currency?: string
}

export const chargedVerdict = (job: SeenJob, charge?: string | ExpectedCharge): Verdict => {
  const { amount = null, currency = null, status } = job.billing ?? { status: "not_charged" }
  const given = typeof charge === "string" ? { amount: charge } : charge
  const expected = { status: "charged", ...given }
  const pass = job.billing !== undefined && matches(job.billing, expected)
  const wanted = given === undefined ? "to have been charged" : `to have been charged ${shown(given)}`
  return {
    pass,
    message: `expected ${about(job)} ${pass ? "not " : ""}${wanted}: ${job.billing === undefined ? `the kind ${job.kind} has no price` : `it is ${status}, ${amount ?? "?"} ${currency}`}`,
    actual: { status, amount, currency },
    expected,
  }
}

export const submittedVerdict = (
  jobs: ReadonlyArray<SeenSubmission>,
  kind: string,
  request: object = {},
  times?: number,
): Verdict => {
  const found = jobs.filter((job) => job.kind === kind && matches(job.request, request))
  const pass = times === undefined ? found.length > 0 : found.length === times
  const what = `${kind} ${shown(request)}`
  const wanted = times === undefined ? "at least once" : `${times} times`
  const all = jobs.map((job) => `\n  ${job.kind} ${shown(job.request)}`).join("")
  return {
    pass,
    message:
      `expected ${what} ${pass ? "not " : ""}to have been submitted ${wanted}, but it was submitted ${found.length} times. ` +
      (jobs.length === 0 ? "Nothing was submitted" : `Submitted:${all}`),
    actual: jobs.map((job) => ({ kind: job.kind, request: job.request })),
    expected: { kind, request },
  }
}

const shown = (value: unknown): string => JSON.stringify(value) ?? String(value)
