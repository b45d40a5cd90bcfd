import { createHash } from "node:crypto"
import { AwsV4Signer } from "aws4fetch"
import type { S3Credentials, S3Place } from "./S3BlobOptions.ts"

export interface S3Request {
  readonly method: "GET" | "HEAD" | "PUT" | "POST" | "DELETE"
  /** Full key of an object, with the prefix of the installation; the bucket itself without one. */
  readonly key?: string
  readonly query?: Readonly<Record<string, string>>
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: Uint8Array
  /**
   * Root element of the body of a successful response. Required where S3 may respond 200 before the request is carried out: such a
   * request has succeeded only if the body says so.
   */
  readonly result?: string
}

const emptySha256 = createHash("sha256").digest("hex")

/** `20261122T213823Z`. */
const datetimeOf = (nowMs: number): string => new Date(nowMs).toISOString().replace(/[:-]|\.\d{3}/g, "")

const targetOf = ({ url }: S3Place, { key, query = {} }: S3Request): URL => {
  const target = new URL(url)
  if (key !== undefined) target.pathname = `${url.pathname.replace(/\/$/, "")}/${key}`
  for (const [name, value] of Object.entries(query)) target.searchParams.set(name, value)
  return target
}

// `aws4fetch` keeps derived signing keys here: one for each day and secret.
const keysOf = new WeakMap<S3Place, Map<string, ArrayBuffer>>()
const keyCacheOf = (place: S3Place): Map<string, ArrayBuffer> => {
  const cache = keysOf.get(place) ?? new Map<string, ArrayBuffer>()
  if (cache.size > 8) cache.clear()
  keysOf.set(place, cache)
  return cache
}

const signerFor = (place: S3Place, credentials: S3Credentials, nowMs: number) => {
  const { accessKeyId, secretAccessKey, sessionToken } = credentials
  return {
    accessKeyId,
    secretAccessKey,
    ...(sessionToken !== undefined && { sessionToken }),
    service: "s3",
    region: place.region,
    cache: keyCacheOf(place),
    datetime: datetimeOf(nowMs),
  }
}

/** Signs a request with its body. A body also carries its checksum, which S3 verifies and keeps. */
export const signed = async (place: S3Place, request: S3Request, credentials: S3Credentials, nowMs: number) => {
  const sha256 = request.body === undefined ? undefined : createHash("sha256").update(request.body).digest()
  const { headers, url } = await new AwsV4Signer({
    ...signerFor(place, credentials, nowMs),
    method: request.method,
    url: targetOf(place, request).href,
    headers: {
      ...request.headers,
      "x-amz-content-sha256": sha256?.toString("hex") ?? emptySha256,
      ...(sha256 !== undefined && { "x-amz-checksum-sha256": sha256.toString("base64") }),
    },
  }).sign()
  return { url, headers: Object.fromEntries(headers) }
}

/** Returns a URL that is valid for `expiresInSeconds`, and serves the object with these headers. */
export const presigned = async (
  place: S3Place,
  request: S3Request,
  expiresInSeconds: number,
  credentials: S3Credentials,
  nowMs: number,
): Promise<string> => {
  const { method, query } = request
  const target = targetOf(place, { ...request, query: { ...query, "X-Amz-Expires": String(expiresInSeconds) } })
  const signer = new AwsV4Signer({
    ...signerFor(place, credentials, nowMs),
    method,
    url: target.href,
    signQuery: true,
  })
  return (await signer.sign()).url.href
}
