import { isFinished, type JobId } from "@kiln/core/domain"
import type { MemoryState } from "../MemoryState.ts"

/**
 * A finished job's blob is an orphan unless a file row names it; an unfinished one's unless its token is the
 * job's present one. Ending a claim raises the token, so a lower token can never commit again.
 */
export const findOrphans = (
  state: MemoryState,
  blobs: ReadonlyArray<{ readonly blobKey: string; readonly jobId: JobId; readonly token: number }>,
): ReadonlyArray<string> =>
  blobs
    .filter(({ blobKey, jobId, token }) => {
      const job = state.jobs.get(jobId)
      if (job === undefined) return true
      return isFinished(job) ? !job.files.some((file) => file.blobKey === blobKey) : token !== job.token
    })
    .map((blob) => blob.blobKey)
