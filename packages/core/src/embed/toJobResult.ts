import {
  billingOf,
  callerMetadata,
  errorMessageOf,
  type Job,
  type JobStatus,
  progressOf,
  submittedOf,
} from "../domain/index.ts"
import type { Kind } from "../kinds/index.ts"
import type { JobResult } from "./JobResult.ts"

/** Converts a job, with its output and files under their names. */
export const toJobResult = <K extends Kind>(job: Job, defaultCurrency: string): JobResult<K> => {
  const { attempts, createdAt, id, kind, mode, priority, status, warningCode } = job
  const common = {
    id,
    kind,
    mode,
    priority,
    metadata: callerMetadata(job),
    tags: submittedOf(job).tags ?? [],
    attempts,
    status,
    warningCode,
    createdAt: dateOf(createdAt),
  }
  const finishedAt = dateOf(job.finishedAt ?? 0)
  const statusFields: Record<JobStatus, object> = {
    queued: { progress: null },
    processing: { progress: progressOf(job) },
    done: { finishedAt, output: outputOf(job) },
    failed: { finishedAt, errorCode: job.errorCode, errorMessage: errorMessageOf(job) },
  }
  // The store's rows are untyped by kind; which kind a job has is what its caller submitted.
  return { ...common, billing: billingOf(job, defaultCurrency), ...statusFields[status] } as JobResult<K>
}

const outputOf = ({ files, output }: Job): object | null =>
  output && {
    ...output,
    ...Object.fromEntries(
      files.map(({ bytes, id, mediaType, name, sha256 }) => [name, { id, mediaType, bytes, sha256 }]),
    ),
  }

/** A day of store time, which is not this process's clock: only written differently. */
const dateOf = (unixMs: number): Date => new Date(unixMs)
