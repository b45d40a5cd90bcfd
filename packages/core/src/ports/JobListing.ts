import type { JobMode } from "../domain/Access.ts"
import type { KeyId, ProjectId } from "../domain/Ids.ts"
import type { Job } from "../domain/Job.ts"
import type { JobStatus } from "../domain/JobState.ts"

/**
 * A job as shown in an operator's list: without request, output or anything that a caller can erase. `metadata` is kept like the record. Times
 * in unix milliseconds.
 */
export type JobSummary = Pick<
  Job,
  | "id"
  | "projectId"
  | "keyId"
  | "mode"
  | "kind"
  | "kindVersion"
  | "priority"
  | "status"
  | "errorCode"
  | "warningCode"
  | "retained"
  | "metadata"
  | "held"
  | "phaseStartedAt"
  | "attempts"
  | "failures"
  | "lostWorkers"
  | "createdAt"
  | "claimableAt"
  | "finishedAt"
>

/** Selects jobs. All given conditions must hold. */
export interface JobQuery {
  readonly projectId?: ProjectId | undefined
  readonly kind?: string | undefined
  readonly mode?: JobMode | undefined
  readonly status?: JobStatus | undefined
  /** The key that created the jobs. */
  readonly keyId?: KeyId | undefined
  /** The error code of failed jobs. */
  readonly errorCode?: string | undefined
  /** Unix milliseconds, inclusive. */
  readonly createdFrom?: number | undefined
  /** Unix milliseconds, exclusive. */
  readonly createdTo?: number | undefined
  /** Labels that the job must all have, see `labelsOf`. None by default. */
  readonly labels?: ReadonlyArray<string> | undefined
}

export interface JobPage extends JobQuery {
  /** The previous page's `next`. */
  readonly after?: string | undefined
  /** Jobs at most, at least 1. */
  readonly limit: number
}

export interface JobList {
  /** Newest first: by `createdAt`, then by `id` or by the order of creation, which ids follow within a process. */
  readonly jobs: ReadonlyArray<JobSummary>
  /**
   * Cursor of the next page; `undefined` on the last page. A page may be short or empty without being the last, because a store
   * scans a bounded number of rows for each.
   */
  readonly next: string | undefined
}

/** The unfinished jobs of one kind and mode, as a worker would find them now. */
export interface QueueDepth {
  readonly kind: string
  readonly mode: JobMode
  /** Jobs that a worker may claim now, including those whose worker was lost. */
  readonly ready: number
  /** Jobs that have not started and wait for the end of the delay of their submission. */
  readonly delayed: number
  /** Jobs that have started and wait for their next attempt. */
  readonly retrying: number
  /** Jobs that a worker holds under a lease. */
  readonly running: number
  /** Milliseconds since the first of the ready jobs became claimable; 0 without one. */
  readonly oldestReadyMs: number
}

/** A finished job, with how long it waited and ran. Times in unix milliseconds. */
export interface FinishedJob extends Pick<
  Job,
  "id" | "projectId" | "kind" | "mode" | "errorCode" | "createdAt" | "waitedMs" | "ranMs"
> {
  readonly status: "done" | "failed"
  readonly finishedAt: number
}

/** Number of jobs of one kind, mode and status. */
export interface JobCount {
  readonly kind: string
  readonly mode: JobMode
  /** `delayed`: queued, but not claimable before its delay ends. */
  readonly status: JobStatus | "delayed"
  /** More than 0. */
  readonly count: number
}

interface Group {
  readonly kind: string
  readonly mode: JobMode
}

/** The number of a `QueueDepth` that counts an unfinished job. */
export type DepthState = "ready" | "delayed" | "retrying" | "running"

/** Builds the answer of `JobDirectory.measureQueue` from the jobs counted by state, and the age of the oldest ready job. */
export const queueDepths = (
  counts: ReadonlyArray<Group & { readonly state: DepthState; readonly count: number }>,
  oldest: ReadonlyArray<Group & { readonly readyMs: number }>,
): ReadonlyArray<QueueDepth> => {
  const depths = new Map<string, QueueDepth>()
  const change = ({ kind, mode }: Group, changes: Partial<QueueDepth>): void => {
    const name = `${kind} ${mode}`
    const before = depths.get(name) ?? { kind, mode, ready: 0, delayed: 0, retrying: 0, running: 0, oldestReadyMs: 0 }
    depths.set(name, { ...before, ...changes })
  }
  for (const { count, state, ...group } of counts) change(group, { [state]: count })
  for (const { readyMs, ...group } of oldest) change(group, { oldestReadyMs: readyMs })
  return [...depths.keys()].sort().flatMap((name) => depths.get(name) ?? [])
}
