import type { ErrorCode } from "@kiln/core/domain"
import type { SubmittedOptions } from "../assertions/asserts.ts"
import {
  type JobOf,
  type OutputFrom,
  type PartOf,
  type Remembers,
  type RequestOf,
  type SeenJob,
  seenJob,
} from "../assertions/SeenJob.ts"
import {
  chargedVerdict,
  doneVerdict,
  type ExpectedCharge,
  failedVerdict,
  outputVerdict,
  submittedVerdict,
  type Verdict,
} from "../assertions/verdicts.ts"

/** The matchers that `import "@kiln/testing/vitest"` adds to `expect`. */
export interface KilnMatchers<R, T> {
  /** Asserts that the job is done. */
  readonly toBeDone: () => R
  /** Asserts that the job failed, with this code if given. */
  readonly toHaveFailedWith: (errorCode?: ErrorCode) => R
  /** Asserts that the job is done with this output; of objects, only the given fields are compared. */
  readonly toHaveOutput: (output: [T] extends [SeenJob] ? PartOf<OutputFrom<T>> : object) => R
  /** Asserts that the job was charged, with this amount if given: an exact decimal. */
  readonly toHaveBeenCharged: (charge?: string | ExpectedCharge) => R
  /**
   * Asserts that such a job was submitted to the engine, at least once or `times` times; of the request, only the given fields
   * are compared. Await it: `await expect(kiln).toHaveSubmitted("speech_synthesis", { input: "Hello" })`.
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
  toBeDone: (job: unknown) => resultOf(doneVerdict(seenJob(job))),
  toHaveFailedWith: (job: unknown, errorCode?: ErrorCode) => resultOf(failedVerdict(seenJob(job), errorCode)),
  toHaveOutput: (job: unknown, output: object) => resultOf(outputVerdict(seenJob(job), output)),
  toHaveBeenCharged: (job: unknown, charge?: string | ExpectedCharge) => resultOf(chargedVerdict(seenJob(job), charge)),
  toHaveSubmitted: async (engine: unknown, kind: string, request?: object, options: SubmittedOptions = {}) =>
    resultOf(submittedVerdict(await engineFrom(engine).submitted(), kind, request, options.times)),
}

const engineFrom = (value: unknown): Remembers => {
  if (typeof value === "object" && value !== null && "submitted" in value) return value as Remembers
  throw new TypeError("expected an engine returned by testEngine()")
}
