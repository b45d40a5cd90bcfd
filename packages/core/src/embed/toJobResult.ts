import { billingOf, errorMessageOf, type Job, type JobStatus, progressOf, submittedOf } from "../domain/index.ts"
import { callerMetadata } from "../domain/Submitted.ts"
import type { FinishHandler } from "../engine/index.ts"
import type { JobKind, Kind } from "../kinds/index.ts"
import type { FinishedJob, JobResult, OnFinished } from "./JobResult.ts"

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

/** Returns the handlers of the kinds: a kind's own, or else the engine's. */
export const finishHandlersOf = (
  kinds: ReadonlyArray<JobKind>,
  engines: OnFinished<never> | undefined,
  defaultCurrency: string,
): ReadonlyMap<string, FinishHandler> =>
  new Map(
    kinds.flatMap((kind): ReadonlyArray<readonly [string, FinishHandler]> => {
      const given = kind.onFinished ?? engines
      if (given === undefined) return []
      // Which kind's job it is was decided by the name under which the function is found.
      const onFinished = given as OnFinished
      const handler: FinishHandler = async (job, attempt, signal) =>
        onFinished({ job: toJobResult(job, defaultCurrency) as FinishedJob, attempt, signal })
      return [[kind.name, handler]]
    }),
  )
