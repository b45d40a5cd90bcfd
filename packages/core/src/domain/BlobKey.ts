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
