import type { JobState } from "./JobState.ts"
import type { TransitionEvent } from "./JobTransition.ts"
import type { Upload } from "./Upload.ts"

/** An event with which a claim ends itself. */
export type ClaimEnd = Extract<TransitionEvent, { readonly event: "completed" | "failed" | "deferred" | "released" }>

/**
 * Whether this end of a claim has come about already: its first try counted and the answer was lost. Asked where
 * `holdsClaim` says no; the repeat is answered as the first try was, and writes nothing.
 *
 * An end raises the token by exactly one, so a job that stands one above the claim's token, and is not held, met nothing
 * since the claim but the end of that claim. (Held, it was taken over; two above, others came in between.) Its status says
 * which end it was:
 * - `done`: only this claim's own completion leads there.
 * - `failed`: this claim's failure, or the sweep's, which differs in its code; with the same code the same came about.
 * - `processing`: given back, deferred or released, or taken back by the sweep (`lost`). These are one end: whichever came
 *   first stands, so a release is the right thing to say wherever it is not known whether a deferral went through.
 */
export const isRepeatedEnd = (
  job: Pick<JobState, "status" | "held" | "token" | "errorCode">,
  end: ClaimEnd,
): boolean => {
  if (job.held || job.token !== end.token + 1) return false
  switch (end.event) {
    case "completed":
      return job.status === "done"
    case "failed":
      return job.status === "failed" && job.errorCode === end.errorCode
    case "deferred":
    case "released":
      return job.status === "processing"
  }
}

/** Whether the transfer that brings this blob has brought it already. A blob's key is one transfer's alone. */
export const isRepeatedReceipt = (upload: Pick<Upload, "file">, blobKey: string): boolean =>
  upload.file?.blobKey === blobKey

/**
 * Whether the transfer with this token was given up already, and no other has begun. One that succeeded was not given up:
 * whoever gives up a transfer removes its blob. (No transfer has token 0; that is an upload before its first.)
 */
export const isRepeatedGivingUp = (
  upload: Pick<Upload, "token" | "claimedUntil" | "file" | "erased">,
  token: number,
): boolean =>
  token > 0 && upload.token === token && upload.claimedUntil === null && upload.file === null && !upload.erased
