import { createHash } from "node:crypto"
import * as Effect from "effect/Effect"
import { headObject } from "./Bucket.ts"
import { headerOf, type S3Client } from "./Client.ts"
import { S3Failure } from "./S3Failure.ts"
import { elementsOf, escaped, textOf } from "./xml.ts"

/** A multipart upload: an object in the making, which nobody can read. */
export interface Multipart {
  readonly key: string
  readonly uploadId: string
}

export interface SentPart {
  readonly etag: string
  /** Base64. */
  readonly sha256: string
}

const beginRequest = { method: "POST", query: { uploads: "" } } as const

export const beginMultipart = Effect.fnUntraced(function* (client: S3Client, key: string) {
  const { text } = yield* client.send({ ...beginRequest, key, headers: { "x-amz-checksum-algorithm": "SHA256" } })
  const uploadId = textOf(text, "UploadId")
  if (uploadId === undefined)
    return yield* Effect.fail(new S3Failure("the service returned no id for a multipart upload", { retryable: false }))
  return { key, uploadId } satisfies Multipart
})

/** Sends a part. Parts are numbered from 1. */
export const sendPart = Effect.fnUntraced(function* (
  client: S3Client,
  { key, uploadId }: Multipart,
  number: number,
  body: Uint8Array,
) {
  const { headers } = yield* client.send({
    method: "PUT",
    key,
    query: { partNumber: String(number), uploadId },
    body,
  })
  const etag = headerOf(headers, "etag") ?? ""
  return { etag, sha256: createHash("sha256").update(body).digest("base64") } satisfies SentPart
})

/** Assembles the parts. `bytes` is the length of the object. */
export const completeMultipart = (
  client: S3Client,
  { key, uploadId }: Multipart,
  parts: ReadonlyArray<SentPart>,
  bytes: number,
): Effect.Effect<void, S3Failure> => {
  const listed = parts.map(
    ({ etag, sha256 }, index) =>
      `<Part><PartNumber>${index + 1}</PartNumber><ETag>${escaped(etag)}</ETag><ChecksumSHA256>${sha256}</ChecksumSHA256></Part>`,
  )
  const body = Buffer.from(
    `<CompleteMultipartUpload xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${listed.join("")}</CompleteMultipartUpload>`,
  )
  return Effect.asVoid(
    client.send({
      method: "POST",
      key,
      query: { uploadId },
      headers: { "content-type": "application/xml" },
      body,
      result: "CompleteMultipartUploadResult",
    }),
  ).pipe(
    Effect.catchIf(
      ({ code, status }) => code === "NoSuchUpload" || status === 404,
      // A repeated request finds nothing to complete if the first one succeeded and its response was lost.
      (failure) =>
        Effect.flatMap(headObject(client, key), (object) =>
          object !== undefined && headerOf(object.headers, "content-length") === String(bytes)
            ? Effect.void
            : Effect.fail(failure),
        ),
    ),
  )
}

/** Drops the parts. Succeeds if the upload does not exist any more. */
export const abortMultipart = (client: S3Client, { key, uploadId }: Multipart): Effect.Effect<void, S3Failure> =>
  Effect.asVoid(client.send({ method: "DELETE", key, query: { uploadId } })).pipe(
    Effect.catchIf(
      ({ status }) => status === 404,
      () => Effect.void,
    ),
  )

export interface UnfinishedMultipart extends Multipart {
  readonly beganMs: number
}

/** Lists multipart uploads whose keys begin with `prefix`. None if the service cannot list them. */
export const listMultiparts = Effect.fnUntraced(function* (client: S3Client, prefix: string) {
  const uploads: Array<UnfinishedMultipart> = []
  let markers: Readonly<Record<string, string>> = {}
  for (;;) {
    const answer = yield* client.send({ method: "GET", query: { uploads: "", prefix, ...markers } }).pipe(
      Effect.catchIf(
        ({ status }) => status === 501,
        () => Effect.succeed(undefined),
      ),
    )
    if (answer === undefined) return uploads
    for (const upload of elementsOf(answer.text, "Upload"))
      uploads.push({
        key: textOf(upload, "Key") ?? "",
        uploadId: textOf(upload, "UploadId") ?? "",
        beganMs: Date.parse(textOf(upload, "Initiated") ?? ""),
      })
    const key = textOf(answer.text, "NextKeyMarker")
    const id = textOf(answer.text, "NextUploadIdMarker")
    if (
      textOf(answer.text, "IsTruncated") !== "true" ||
      key === undefined ||
      (key === markers["key-marker"] && id === markers["upload-id-marker"])
    )
      return uploads
    markers = { "key-marker": key, ...(id !== undefined && { "upload-id-marker": id }) }
  }
})
