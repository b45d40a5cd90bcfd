import type { Billing, ErrorCode, JobStatus } from "@kiln/core/domain"

/** The part of a job that assertions need: a `JobResult`. */
export interface SeenJob {
  readonly id: string
  readonly kind: string
  readonly status: JobStatus
  readonly attempts: number
  /** Missing for a kind without providers, switches, a price and meters. */
  readonly billing?: Billing
  readonly output?: unknown
  readonly errorCode?: ErrorCode
}

/** Returns the job. Throws `TypeError` for anything else, such as a promise. */
export const seenJob = <J>(value: J): J & SeenJob => {
  if (typeof value === "object" && value !== null && "status" in value && "attempts" in value)
    return value as J & SeenJob
  throw new TypeError("expected a job: await its promise, or submit one first")
}

/** A partial value, at any depth. */
export type PartOf<T> =
  T extends ReadonlyArray<infer Item>
    ? ReadonlyArray<PartOf<Item>>
    : T extends object
      ? { readonly [Field in keyof T]?: PartOf<T[Field]> }
      : T

/** A job of this type that is done. */
export type Done<J extends SeenJob> = Extract<J, { readonly status: "done" }>
/** A job of this type that failed. */
export type Failed<J extends SeenJob> = Extract<J, { readonly status: "failed" }>
/** The output of a job of this type. */
export type OutputFrom<J extends SeenJob> =
  Done<J> extends { readonly output: infer Output } ? NonNullable<Output> : never

/** A submitted job. */
export interface SeenSubmission {
  readonly kind: string
  readonly request: unknown
}

/** Records submitted jobs: a test engine. */
export interface Remembers<Job extends SeenSubmission = SeenSubmission> {
  readonly submitted: () => Promise<ReadonlyArray<Job>>
}

/** The jobs that may be submitted to an engine of this type. */
export type JobOf<Engine> = Engine extends Remembers<infer Job> ? Job : SeenSubmission
/** The jobs of this kind. */
export type JobNamed<Engine, Name> = Extract<JobOf<Engine>, { readonly kind: Name }>
/** Their requests. */
export type RequestOf<Engine, Name> = NonNullable<JobNamed<Engine, Name>["request"]>
