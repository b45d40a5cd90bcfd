import { isFinished, type Job, submittedOf } from "@kiln/core/domain"
import { blobPrefixesOf } from "@kiln/core/rules"
import { type PruneResult, type RetentionAge, retentionAgeOf } from "@kiln/core/ports"
import { addPurges, idempotencyIndex, type MemoryState } from "../MemoryState.ts"
import { blank } from "./eraseJobs.ts"

/** A parent may still need what it was told about its children, and a job its prerequisites. */
const isNeeded = (state: MemoryState, job: Job): boolean => {
  const { parent } = submittedOf(job)
  const needing = parent && state.jobs.get(parent.jobId)
  return (needing !== undefined && !isFinished(needing)) || state.dependents.has(job.id)
}

const finishedLongAgo = (
  state: MemoryState,
  olderThanMs: RetentionAge,
  limit: number,
  now: number,
  wanted: (job: Job) => boolean,
): ReadonlyArray<Job> =>
  [...state.jobs.values()]
    .filter(
      (job) =>
        job.finishedAt !== null &&
        job.finishedAt <= now - retentionAgeOf(olderThanMs, job.kind) &&
        wanted(job) &&
        !isNeeded(state, job),
    )
    .sort((a, b) => (a.finishedAt ?? 0) - (b.finishedAt ?? 0))
    .slice(0, limit)

export const expireData = (state: MemoryState, olderThanMs: RetentionAge, limit: number, now: number): PruneResult => {
  const jobs = finishedLongAgo(state, olderThanMs, limit, now, (job) => job.retained === "kept")
  return { count: jobs.length, purges: jobs.flatMap((job) => blank(state, job, "expired")) }
}

/** The charge stays: the ledger is not the job's. */
export const deleteJobs = (state: MemoryState, olderThanMs: RetentionAge, limit: number, now: number): PruneResult => {
  const jobs = finishedLongAgo(state, olderThanMs, limit, now, () => true)
  const purges = jobs.flatMap((job) => (job.retained === "kept" ? addPurges(state, blobPrefixesOf(job)) : []))
  for (const job of jobs) {
    state.jobs.delete(job.id)
    state.attempts.delete(job.id)
    state.waits.delete(job.id)
    state.signals.delete(job.id)
    state.chunks.delete(job.id)
    state.deliveries.delete(job.id)
    state.jobByIdempotencyKey.delete(idempotencyIndex(job.keyId, job.idempotencyKey))
    if (job.uploadId !== null) state.uploads.delete(job.uploadId)
  }
  for (const [key, { jobId }] of state.replacedKeys) if (!state.jobs.has(jobId)) state.replacedKeys.delete(key)
  return { count: jobs.length, purges }
}
