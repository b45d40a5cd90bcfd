import type { JobState } from "./JobState.ts"
import type { TransitionEvent } from "./JobTransition.ts"
import type { Upload } from "./Upload.ts"

/** An event by which the holder of a claim ends it. */
export type ClaimEnd = Extract<
  TransitionEvent,
  { readonly event: "completed" | "failed" | "deferred" | "parked" | "released" }
>

/** Returns whether all that has happened since this claim was its end, by anyone. Each end raises the token by one. */
export const endedOnce = (job: Pick<JobState, "held" | "token">, token: number): boolean =>
  !job.held && job.token === token + 1

/**
 * Returns whether this end of a claim was already written, and its answer lost. Call it when
 * `holdsClaim` returns false. A repeat gets the first answer and writes nothing.
 *
 * The status shows which it was:
 * - `done`: only this claim's completion leads there.
 * - `failed`: this claim's failure, or the sweep's, which has another error code.
 * - `processing`: deferred, parked, released, or returned to the queue by the sweep (`lost`). These count as one end, and the first
 *   stands, so releasing is correct where a deferral may have been written.
 */
export const isRepeatedEnd = (
  job: Pick<JobState, "status" | "held" | "token" | "errorCode">,
  end: ClaimEnd,
): boolean => {
  if (!endedOnce(job, end.token)) return false
  switch (end.event) {
    case "completed":
      return job.status === "done"
    case "failed":
      return job.status === "failed" && job.errorCode === end.errorCode
    case "deferred":
    case "parked":
    case "released":
      return job.status === "processing"
  }
}

/** Returns whether the transfer of this blob was already completed. Each transfer has its own blob key. */
export const isRepeatedReceipt = (upload: Pick<Upload, "file">, blobKey: string): boolean =>
  upload.file?.blobKey === blobKey

/**
 * Returns whether the transfer with this token was already released and no other has begun. A transfer that succeeded was not
 * released, because releasing one removes its blob. (Token 0 means an upload before its first transfer.)
 */
export const isRepeatedGivingUp = (
  upload: Pick<Upload, "token" | "claimedUntil" | "file" | "erased">,
  token: number,
): boolean =>
  token > 0 && upload.token === token && upload.claimedUntil === null && upload.file === null && !upload.erased
