import type { ErrorCode } from "@kiln/core/domain"
import type { ExpectedCharge, PartOf, SeenJob, SubmittedOptions } from "../assertions/index.ts"
import type { JobOf, OutputFrom, Remembers, RequestOf } from "../assertions/SeenJob.ts"
import {
  chargedVerdict,
  doneVerdict,
  failedVerdict,
  outputVerdict,
  submittedVerdict,
  type Verdict,
} from "../assertions/verdicts.ts"

/** The matchers that `import "@kiln/testing/vitest"` adds to `expect`. */
export interface KilnMatchers<R, T> {
  /** The job is done. */
  readonly toBeDone: () => R
  /** The job failed, with this code where one is given. */
  readonly toHaveFailedWith: (errorCode?: ErrorCode) => R
  /** The job is done and brought this: of objects, the fields that are named. */
  readonly toHaveOutput: (output: [T] extends [SeenJob] ? PartOf<OutputFrom<T>> : object) => R
  /** The job was charged, this amount where one is given: an exact decimal. */
  readonly toHaveBeenCharged: (charge?: string | ExpectedCharge) => R
  /**
   * Such a job was submitted to the engine, at least once or `times` times: of the request, the fields that are named. To be
   * awaited: `await expect(kiln).toHaveSubmitted("speech_synthesis", { input: "Hello" })`.
   */
  readonly toHaveSubmitted: <Name extends JobOf<T>["kind"]>(
    kind: Name,
    request?: PartOf<RequestOf<T, Name>>,
    options?: SubmittedOptions,
  ) => Promise<void>
}

declare module "vitest" {
  interface Matchers<R extends void | Promise<void>, T> extends KilnMatchers<R, T> {}
}

const resultOf = ({ message, ...verdict }: Verdict) => ({ ...verdict, message: () => message })

export const matchers = {
  toBeDone: (job: unknown) => resultOf(doneVerdict(jobFrom(job))),
  toHaveFailedWith: (job: unknown, errorCode?: ErrorCode) => resultOf(failedVerdict(jobFrom(job), errorCode)),
  toHaveOutput: (job: unknown, output: object) => resultOf(outputVerdict(jobFrom(job), output)),
  toHaveBeenCharged: (job: unknown, charge?: string | ExpectedCharge) => resultOf(chargedVerdict(jobFrom(job), charge)),
  toHaveSubmitted: async (engine: unknown, kind: string, request?: object, options: SubmittedOptions = {}) =>
    resultOf(submittedVerdict(await engineFrom(engine).submitted(), kind, request, options.times)),
}

const jobFrom = (value: unknown): SeenJob => {
  if (typeof value === "object" && value !== null && "status" in value && "billing" in value) return value as SeenJob
  throw new TypeError("this is no job: await the promise of one, or `submit` one first")
}

const engineFrom = (value: unknown): Remembers => {
  if (typeof value === "object" && value !== null && "submitted" in value) return value as Remembers
  throw new TypeError("this is no test engine")
}
