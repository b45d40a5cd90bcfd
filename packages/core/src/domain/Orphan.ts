/**
 * Why a blob is not needed. `spent`: its record shows that its claim or transfer ended without it. `unknown`: its job or upload
 * has no record. `ahead`: its token is higher than its record's, so the record is older than the blob. Only `spent` is proof: the
 * other two also occur in a store that was restored from a backup.
 */
export type OrphanReason = "spent" | "unknown" | "ahead"

/** Returns why a job's blob is not needed; `undefined` if a file names it or its claim may still commit it. */
export const jobOrphanReason = (
  job: { readonly finished: boolean; readonly token: number } | undefined,
  blob: { readonly token: number; readonly named: boolean },
): OrphanReason | undefined => {
  if (job === undefined) return "unknown"
  if (blob.named) return undefined
  if (blob.token > job.token) return "ahead"
  return !job.finished && blob.token === job.token ? undefined : "spent"
}

/** Returns why an upload's blob is not needed; `undefined` if it is the upload's file or its transfer may still commit it. */
export const uploadOrphanReason = (
  upload:
    | {
        readonly erased: boolean
        readonly token: number
        readonly inTransfer: boolean
        readonly blobKey: string | null
      }
    | undefined,
  blob: { readonly blobKey: string; readonly token: number },
): OrphanReason | undefined => {
  if (upload === undefined) return "unknown"
  if (upload.erased) return "spent"
  if (upload.blobKey === blob.blobKey) return undefined
  if (blob.token > upload.token) return "ahead"
  return upload.inTransfer && blob.token === upload.token ? undefined : "spent"
}

const firstPauseMs = 60_000
const longestPauseMs = 3_600_000

/**
 * Milliseconds until blobs whose removal failed are tried again, by the number of earlier failures: twice as long each time, from
 * a minute up to an hour.
 */
export const purgePauseMs = (failures: number): number =>
  Math.min(longestPauseMs, firstPauseMs * 2 ** Math.min(failures, 16))
