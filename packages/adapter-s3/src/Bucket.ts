import type { BlobInfo } from "@kiln/core/ports"
import * as Effect from "effect/Effect"
import { headerOf, type S3Answer, type S3Client } from "./Client.ts"
import { forAll } from "./forAll.ts"
import { S3Failure } from "./S3Failure.ts"
import { elementsOf, escaped, textOf } from "./xml.ts"

// The objects of an installation:
//
//   <prefix>/jobs/…, <prefix>/uploads/…   blobs, each one object; its metadata has its SHA-256
//   <prefix>/_parts/<key>/<write id>      a blob of several parts, until it is complete and copied to its key
//
// A blob's key has no underscore, so the two cannot meet. Metadata must be given when a multipart upload begins, before the
// digest is known: so the parts are assembled under a name of their own and copied, within S3, to the blob's key.

export const objectKey = (client: S3Client, key: string): string => client.place.base + key
export const partsKey = (client: S3Client, key: string, writeId: string): string =>
  `${client.place.base}_parts/${key}/${writeId}`

const parts = /^_parts(\/[0-9a-z]+)+\/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

/** Returns whether `partsKey` made a key. The bucket may hold objects of others under the same prefix. */
export const isPartsKey = (client: S3Client, key: string): boolean =>
  key.startsWith(client.place.base) && parts.test(key.slice(client.place.base.length))

/** Begins the keys of all unfinished blobs. */
export const partsPrefix = (client: S3Client): string => `${client.place.base}_parts/`

const SHA256 = "x-amz-meta-kiln-sha256"
const BYTES = "x-amz-meta-kiln-bytes"
const metadataOf = ({ bytes, sha256 }: BlobInfo): Readonly<Record<string, string>> => ({
  "content-type": "application/octet-stream",
  [BYTES]: String(bytes),
  [SHA256]: sha256,
})

/** Reads length and digest of an object; `"damaged"` if they are missing or do not fit. */
export const infoOf = ({ headers }: S3Answer): BlobInfo | "damaged" => {
  const sha256 = headerOf(headers, SHA256) ?? ""
  const bytes = headerOf(headers, "content-length") ?? ""
  if (!/^[0-9a-f]{64}$/.test(sha256) || !/^\d+$/.test(bytes) || bytes !== headerOf(headers, BYTES)) return "damaged"
  return { bytes: Number(bytes), sha256 }
}

/** Fails unless the bucket can be listed. */
export const reach = (client: S3Client): Effect.Effect<void, S3Failure> =>
  Effect.asVoid(client.send({ method: "GET", query: { "list-type": "2", "max-keys": "1", prefix: client.place.base } }))

/** Reads the headers of an object; `undefined` if it does not exist. */
export const headObject = (client: S3Client, key: string): Effect.Effect<S3Answer | undefined, S3Failure> =>
  client.send({ method: "HEAD", key }).pipe(
    Effect.catchIf(
      ({ status }) => status === 404,
      // A HEAD does not say whether the object is missing or the whole bucket.
      () => Effect.as(reach(client), undefined),
    ),
  )

export const deleteObject = (client: S3Client, key: string): Effect.Effect<void, S3Failure> =>
  Effect.asVoid(client.send({ method: "DELETE", key })).pipe(
    Effect.catchIf(
      ({ code }) => code === "NoSuchKey",
      () => Effect.void,
    ),
  )

const MOST_DELETES = 1_000

/** Returns the failures of a request for up to 1,000 objects. */
const deleteBatch = Effect.fnUntraced(function* (client: S3Client, keys: ReadonlyArray<string>) {
  const objects = keys.map((key) => `<Object><Key>${escaped(key)}</Key></Object>`)
  const body = Buffer.from(`<Delete><Quiet>true</Quiet>${objects.join("")}</Delete>`)
  const { text } = yield* client.send({
    method: "POST",
    query: { delete: "" },
    headers: { "content-type": "application/xml" },
    body,
  })
  const [error, ...others] = elementsOf(text, "Error")
  if (error === undefined) return
  const code = textOf(error, "Code")
  const more = others.length === 0 ? "" : ` and ${others.length} more`
  return yield* Effect.fail(
    new S3Failure(`S3 did not delete ${textOf(error, "Key")}${more}: ${code}`, { code, retryable: false }),
  )
})

/** Deletes objects, up to 1,000 with one request. Tries all of them, and then fails if some remain. */
export const deleteObjects = (client: S3Client, keys: ReadonlyArray<string>): Effect.Effect<void, S3Failure> => {
  const [only] = keys
  if (only !== undefined && keys.length === 1) return deleteObject(client, only)
  const batches = Array.from({ length: Math.ceil(keys.length / MOST_DELETES) }, (_, index) =>
    keys.slice(index * MOST_DELETES, (index + 1) * MOST_DELETES),
  )
  return forAll(batches, (batch) => deleteBatch(client, batch), 1)
}

export interface ListedObject {
  readonly key: string
  readonly lastModifiedMs: number
}
export interface ListedPage {
  readonly objects: ReadonlyArray<ListedObject>
  /** `undefined` on the last page. */
  readonly next: string | undefined
}

/** Lists up to 1,000 objects whose keys begin with `prefix`. */
export const listPage = Effect.fnUntraced(function* (
  client: S3Client,
  prefix: string,
  token: string | undefined,
): Effect.fn.Return<ListedPage, S3Failure> {
  const { text } = yield* client.send({
    method: "GET",
    query: { "list-type": "2", prefix, ...(token !== undefined && { "continuation-token": token }) },
  })
  const truncated = textOf(text, "IsTruncated")
  const next = textOf(text, "NextContinuationToken")
  // An incomplete listing must not pass for a complete one: what is not listed would stay, although its removal is confirmed.
  if (truncated === undefined || (truncated === "true" && (next === undefined || next === token)))
    return yield* Effect.fail(
      new S3Failure("the service does not support ListObjectsV2 with pages: use one that does", { retryable: false }),
    )
  const objects = elementsOf(text, "Contents").map((content) => ({
    key: textOf(content, "Key") ?? "",
    lastModifiedMs: Date.parse(textOf(content, "LastModified") ?? ""),
  }))
  return { objects, next: truncated === "true" ? next : undefined }
})

/** Lists all objects whose keys begin with `prefix`. */
export const listAll = Effect.fnUntraced(function* (client: S3Client, prefix: string) {
  const objects: Array<ListedObject> = []
  let token: string | undefined
  do {
    const page: ListedPage = yield* listPage(client, prefix, token)
    objects.push(...page.objects)
    token = page.next
  } while (token !== undefined)
  return objects
})

/** Writes an object with one request. */
export const putObject = (
  client: S3Client,
  key: string,
  body: Uint8Array,
  info: BlobInfo,
): Effect.Effect<void, S3Failure> => Effect.asVoid(client.send({ method: "PUT", key, headers: metadataOf(info), body }))

/**
 * Copies an object within the bucket, with the metadata of a blob. Succeeds only if the copy is known to have the blob's bytes: by the
 * checksum in the response or, from a service that returns none for the whole object, by the headers of the copy.
 */
export const copyObject = Effect.fnUntraced(function* (client: S3Client, from: string, to: string, info: BlobInfo) {
  const { text } = yield* client.send({
    method: "PUT",
    key: to,
    headers: {
      ...metadataOf(info),
      "x-amz-checksum-algorithm": "SHA256",
      "x-amz-copy-source": `/${client.place.bucket}/${from}`,
      "x-amz-metadata-directive": "REPLACE",
    },
    result: "CopyObjectResult",
  })
  const checksum = textOf(text, "ChecksumSHA256")
  // A checksum of checksums ends with the number of parts.
  const isCopied =
    checksum === undefined || checksum.includes("-")
      ? isSame(yield* headObject(client, to), info)
      : checksum === Buffer.from(info.sha256, "hex").toString("base64")
  if (!isCopied)
    return yield* Effect.fail(
      new S3Failure("the object that S3 assembled differs from the bytes that were sent", { retryable: false }),
    )
})

const isSame = (object: S3Answer | undefined, info: BlobInfo): boolean => {
  const found = object === undefined ? "damaged" : infoOf(object)
  return found !== "damaged" && found.bytes === info.bytes && found.sha256 === info.sha256
}
