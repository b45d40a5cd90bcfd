import { idBody, type JobId, type UploadId } from "./Ids.ts"

// Only [0-9a-z] and the separator: some blob drivers take `?`, `:` or upper case for something else
// and would let two keys name one blob.
const KEY = /^[0-9a-z]+(?:\/[0-9a-z]+)*$/

export const isBlobKey = (text: string): boolean => KEY.test(text)

/** Returns the key of a job's blob. It contains the fencing token, so a stale attempt can never overwrite the winner's blob. */
export const jobBlobKey = (jobId: JobId, token: number, name: string): string =>
  `${jobBlobPrefix(jobId)}/${token}/${name}`
export const jobBlobPrefix = (jobId: JobId): string => `jobs/${idBody(jobId)}`

export const uploadBlobKey = (uploadId: UploadId, token: number): string => `${uploadBlobPrefix(uploadId)}/${token}`
export const uploadBlobPrefix = (uploadId: UploadId): string => `uploads/${idBody(uploadId)}`

/** Returns the prefixes under which a job has blobs: its own and its upload's. */
export const blobPrefixesOf = (job: {
  readonly id: JobId
  readonly uploadId: UploadId | null
}): ReadonlyArray<string> =>
  job.uploadId === null ? [jobBlobPrefix(job.id)] : [jobBlobPrefix(job.id), uploadBlobPrefix(job.uploadId)]

/** Returns the owner of a blob, read from its key; `undefined` for a key that kiln did not create. */
export const ownerOfBlob = (
  key: string,
):
  | { readonly _tag: "Job"; readonly jobId: JobId; readonly token: number }
  | { readonly _tag: "Upload"; readonly uploadId: UploadId; readonly token: number }
  | undefined => {
  const [root, body, token, name, ...rest] = key.split("/")
  if (!isBlobKey(key) || body === undefined || token === undefined || !/^[1-9][0-9]*$/.test(token) || rest.length > 0)
    return undefined
  if (root === "jobs" && name !== undefined) return { _tag: "Job", jobId: `job_${body}`, token: Number(token) }
  if (root === "uploads" && name === undefined) return { _tag: "Upload", uploadId: `upl_${body}`, token: Number(token) }
  return undefined
}

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
