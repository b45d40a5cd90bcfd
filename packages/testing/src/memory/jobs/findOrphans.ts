import { isFinished, jobOrphanReason, type JobId } from "@kiln/core/domain"
import type { Orphan } from "@kiln/core/ports"
import type { MemoryState } from "../MemoryState.ts"

/** The rule is the domain's: `jobOrphanReason`. */
export const findOrphans = (
  state: MemoryState,
  blobs: ReadonlyArray<{ readonly blobKey: string; readonly jobId: JobId; readonly token: number }>,
): ReadonlyArray<Orphan> =>
  blobs.flatMap(({ blobKey, jobId, token }) => {
    const job = state.jobs.get(jobId)
    const named = job !== undefined && isFinished(job) && job.files.some((file) => file.blobKey === blobKey)
    const reason = jobOrphanReason(job && { finished: isFinished(job), token: job.token }, { token, named })
    return reason === undefined ? [] : [{ blobKey, reason }]
  })
