import { isFinished, type Job, owns } from "@kiln/core/domain"
import { blobPrefixesOf, strongerWarning } from "@kiln/core/rules"
import type { EraseOutcome, Erasure } from "@kiln/core/ports"
import { addPurges, type MemoryState, putJob, putUpload } from "../MemoryState.ts"

/**
 * Erases the data of jobs. A job whose data had expired by age is `AlreadyErased` at its first explicit erasure, because nothing
 * was left to delete. It reports `data_deleted` from then on, as its owner requested.
 */
export const eraseJobs = (state: MemoryState, items: ReadonlyArray<Erasure>): ReadonlyArray<EraseOutcome> =>
  items.map(({ jobId, principal }) => {
    const job = state.jobs.get(jobId)
    if (job === undefined || !owns(principal, job)) return { _tag: "NotFound" }
    if (!isFinished(job)) return { _tag: "Unfinished" }
    if (job.retained === "kept") return { _tag: "Erased", purges: blank(state, job, "deleted") }
    if (job.retained === "expired") blank(state, job, "deleted", false)
    return {
      _tag: "AlreadyErased",
      purges: blobPrefixesOf(job).flatMap((blobPrefix) => (state.purges.has(blobPrefix) ? [{ blobPrefix }] : [])),
    }
  })

/** Deletes the retained data of a finished job, and records the purges. */
export const blank = (
  state: MemoryState,
  job: Job,
  retained: "deleted" | "expired",
  purge = true,
): ReturnType<typeof addPurges> => {
  const warning = retained === "deleted" ? "data_deleted" : "data_expired"
  putJob(state, {
    ...job,
    retained,
    request: null,
    checkpoints: Object.freeze({}),
    output: null,
    files: Object.freeze([]),
    warningCode: strongerWarning(job.warningCode ?? undefined, warning) ?? null,
  })
  state.attempts.delete(job.id)
  state.signals.delete(job.id)
  state.chunks.delete(job.id)
  const upload = job.uploadId === null ? undefined : state.uploads.get(job.uploadId)
  if (upload !== undefined) putUpload(state, { ...upload, file: null, claimedUntil: null, erased: true })
  return purge ? addPurges(state, blobPrefixesOf(job)) : []
}
