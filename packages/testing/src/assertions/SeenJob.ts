import type { Billing, ErrorCode, JobStatus } from "@kiln/core/domain"

/** What is asked of a job: a `JobResult`. */
export interface SeenJob {
  readonly id: string
  readonly kind: string
  readonly status: JobStatus
  readonly attempts: number
  readonly billing: Billing
  readonly output?: unknown
  readonly errorCode?: ErrorCode
}

/** Some of what is in there, at any depth. */
export type PartOf<T> =
  T extends ReadonlyArray<infer Item>
    ? ReadonlyArray<PartOf<Item>>
    : T extends object
      ? { readonly [Field in keyof T]?: PartOf<T[Field]> }
      : T

/** A job that is done, of this type. */
export type Done<J extends SeenJob> = Extract<J, { readonly status: "done" }>
/** A job that failed, of this type. */
export type Failed<J extends SeenJob> = Extract<J, { readonly status: "failed" }>
/** What a job of this type brings. */
export type OutputFrom<J extends SeenJob> =
  Done<J> extends { readonly output: infer Output } ? NonNullable<Output> : never

/** A job as it was submitted. */
export interface SeenSubmission {
  readonly kind: string
  readonly request: unknown
}

/** What remembers which jobs were submitted to it: a test engine. */
export interface Remembers<Job extends SeenSubmission = SeenSubmission> {
  readonly submitted: () => Promise<ReadonlyArray<Job>>
}

/** The jobs that may be submitted to an engine of this type. */
export type JobOf<Engine> = Engine extends Remembers<infer Job> ? Job : SeenSubmission
/** Those of them that are of this kind. */
export type JobNamed<Engine, Name> = Extract<JobOf<Engine>, { readonly kind: Name }>
/** What they ask for. */
export type RequestOf<Engine, Name> = NonNullable<JobNamed<Engine, Name>["request"]>
