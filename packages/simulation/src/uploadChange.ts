import type { Upload } from "@kiln/core/domain"

/** Returns why one verb cannot have changed an upload like this at store time `now`; `undefined` if it can. */
export const uploadChange = (
  before: Upload | undefined,
  after: Upload | undefined,
  now: number,
  verb: string,
  /** The transfer the verb was called for. */
  token: number | undefined,
): string | undefined => {
  if (after === undefined)
    return before === undefined || before.erased || verb === "deleteJobs"
      ? undefined
      : "the record was deleted before its data"
  if (before === undefined)
    return after.token === 0 && after.file === null && after.jobId === null && !after.erased
      ? undefined
      : "a new upload must not have a transfer, file or job"
  return (
    illegalData(before, after) ?? illegalTransfer(before, after, now, verb, token) ?? illegalUse(before, after, verb)
  )
}

const illegalData = (before: Upload, after: Upload): string | undefined => {
  if (before.erased && !after.erased) return "erased data came back"
  if (after.erased && after.file !== null) return "an erased upload has a file"
  if (before.file !== null && after.file === null && !after.erased) return "the file was removed without an erasure"
  if (before.file !== null && after.file !== null && before.file.blobKey !== after.file.blobKey)
    return "the file was replaced"
  return undefined
}

const illegalTransfer = (
  before: Upload,
  after: Upload,
  now: number,
  verb: string,
  token: number | undefined,
): string | undefined => {
  if (after.token !== before.token) {
    if (verb !== "claimUpload" || after.token !== before.token + 1) return "the token changed without a claim"
    if (before.claimedUntil !== null && before.claimedUntil > now) return "two transfers at the same time"
    if (before.file !== null) return "a transfer began although the upload has its file"
  }
  if (before.file === null && after.file !== null) {
    if (verb !== "completeUpload") return "the file was not stored by completeUpload"
    if (before.claimedUntil === null || before.token !== token)
      return "the file was stored by a transfer that had ended"
  }
  return undefined
}

const illegalUse = (before: Upload, after: Upload, verb: string): string | undefined => {
  if (before.jobId === after.jobId) return undefined
  if (before.jobId !== null) return "two jobs used the upload"
  if (verb !== "createJobs") return "the upload was used by another verb than createJobs"
  return before.file === null ? "a job used the upload before its file arrived" : undefined
}
