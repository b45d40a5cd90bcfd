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
    return before === undefined || before.erased || verb === "deleteJobs" ? undefined : "it is gone before its data"
  if (before === undefined)
    return after.token === 0 && after.file === null && after.jobId === null && !after.erased
      ? undefined
      : "it begins with a transfer"
  return (
    illegalData(before, after) ?? illegalTransfer(before, after, now, verb, token) ?? illegalUse(before, after, verb)
  )
}

const illegalData = (before: Upload, after: Upload): string | undefined => {
  if (before.erased && !after.erased) return "it comes back"
  if (after.erased && after.file !== null) return "it is erased and has a file"
  if (before.file !== null && after.file === null && !after.erased) return "its file went, its record says nothing"
  if (before.file !== null && after.file !== null && before.file.blobKey !== after.file.blobKey)
    return "another file took the place of its file"
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
    if (verb !== "claimUpload" || after.token !== before.token + 1) return "its token moved"
    if (before.claimedUntil !== null && before.claimedUntil > now) return "two transfers at once"
    if (before.file !== null) return "a transfer into an upload that has its file"
  }
  if (before.file === null && after.file !== null) {
    if (verb !== "completeUpload") return "a file came by another way"
    if (before.claimedUntil === null || before.token !== token) return "a transfer that was over brought its file"
  }
  return undefined
}

const illegalUse = (before: Upload, after: Upload, verb: string): string | undefined => {
  if (before.jobId === after.jobId) return undefined
  if (before.jobId !== null) return "it feeds two jobs"
  if (verb !== "createJobs") return "a job took it by another way"
  return before.file === null ? "a job took it without its file" : undefined
}
