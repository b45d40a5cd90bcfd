import { requireNumber } from "@kiln/core/domain"

/** An access key. `sessionToken` belongs to temporary credentials. */
export interface S3Credentials {
  readonly accessKeyId: string
  readonly secretAccessKey: string
  readonly sessionToken?: string | undefined
}

export interface S3BlobOptions {
  /** An existing bucket. */
  readonly bucket: string
  /** Placed before all keys, such as `kiln` or `services/kiln`. None by default. Two installations must not share one. */
  readonly prefix?: string | undefined
  /** Region of the bucket. Required on AWS; `us-east-1` by default if `endpoint` is set. */
  readonly region?: string | undefined
  /** URL of an S3-compatible service, such as `https://minio.example.com`. AWS by default. */
  readonly endpoint?: string | undefined
  /** Puts the bucket into the path instead of the host name. True by default if `endpoint` is set. */
  readonly pathStyle?: boolean | undefined
  /**
   * An access key, or a function that returns one, such as `awsCredentials(process.env)` or the AWS SDK's
   * `fromNodeProviderChain()`. The function is called again after a minute, and when the service rejects the key as expired.
   */
  readonly credentials: S3Credentials | (() => Promise<S3Credentials>)
  /**
   * Blobs up to this length are stored with one request, longer ones in parts of this length, in bytes. 5 MiB by default,
   * which is also the minimum. Each put holds one part in memory.
   */
  readonly partBytes?: number | undefined
  /** A request fails when its connection makes no progress for this long, in milliseconds. 30,000 by default. */
  readonly timeoutMs?: number | undefined
  /** Age from which parts of a put count as left by a killed process and are deleted, in milliseconds. 24 hours by default. */
  readonly abandonedAfterMs?: number | undefined
}

/** Checked options with defaults. */
export interface S3Place {
  readonly bucket: string
  /** Empty, or ends with `/`. */
  readonly base: string
  readonly region: string
  /** URL of the bucket. */
  readonly url: URL
  readonly credentials: () => Promise<S3Credentials>
  readonly partBytes: number
  readonly timeoutMs: number
  readonly abandonedAfterMs: number
}

const BUCKET = /^[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]$/
const PREFIX = /^[\w.-]+(?:\/[\w.-]+)*$/
const REGION = /^[a-z0-9-]{1,64}$/
const MIB = 1024 * 1024
const LEAST_PART_BYTES = 5 * MIB
const MOST_PART_BYTES = 1024 * MIB
const DAY_MS = 86_400_000

/** Checks options. Throws `TypeError` with the name of the option and the rule. */
export const placeOf = (options: S3BlobOptions): S3Place => {
  const { abandonedAfterMs = DAY_MS, bucket, credentials, endpoint, partBytes = LEAST_PART_BYTES, prefix } = options
  const { timeoutMs = 30_000 } = options
  if (typeof bucket !== "string" || !BUCKET.test(bucket))
    throw new TypeError("bucket must be the name of an S3 bucket: 3 to 63 lower-case letters, digits, dots and hyphens")
  if (prefix !== undefined && (!PREFIX.test(prefix) || prefix.split("/").some((part) => /^\.+$/.test(part))))
    throw new TypeError("prefix must consist of letters, digits, dots, hyphens and underscores, in parts joined by /")
  const region = options.region ?? (endpoint === undefined ? "" : "us-east-1")
  if (!REGION.test(region)) throw new TypeError("region must be the region of the bucket, such as eu-central-1")
  if (typeof credentials !== "function") requireCredentials(credentials)
  requireNumber("partBytes", partBytes, { least: LEAST_PART_BYTES, most: MOST_PART_BYTES, whole: true })
  requireNumber("timeoutMs", timeoutMs, { least: 1, most: 3_600_000 })
  requireNumber("abandonedAfterMs", abandonedAfterMs, { least: 0, most: Number.MAX_SAFE_INTEGER })
  return {
    bucket,
    base: prefix === undefined ? "" : `${prefix}/`,
    region,
    url: urlOf(bucket, region, endpoint, options.pathStyle),
    credentials: typeof credentials === "function" ? credentials : () => Promise.resolve(credentials),
    partBytes,
    timeoutMs,
    abandonedAfterMs,
  }
}

/** Throws `TypeError` unless both parts of the key are there. The message does not repeat them. */
export const requireCredentials = (credentials: S3Credentials): S3Credentials => {
  const isText = (value: unknown) => typeof value === "string" && value !== ""
  if (!isText(credentials?.accessKeyId) || !isText(credentials.secretAccessKey))
    throw new TypeError("credentials must have accessKeyId and secretAccessKey, or be a function that returns them")
  return credentials
}

const urlOf = (bucket: string, region: string, endpoint: string | undefined, style: boolean | undefined): URL => {
  const service = new URL(parseEndpoint(endpoint) ?? `https://s3.${region}.amazonaws.com`)
  // A certificate for *.s3.amazonaws.com does not cover a bucket name with dots.
  const pathStyle = style ?? (endpoint !== undefined || bucket.includes("."))
  if (pathStyle) service.pathname = `${service.pathname.replace(/\/$/, "")}/${bucket}`
  else service.host = `${bucket}.${service.host}`
  return service
}

const parseEndpoint = (endpoint: string | undefined): URL | undefined => {
  if (endpoint === undefined) return undefined
  const url = URL.parse(endpoint)
  if (url === null || !/^https?:$/.test(url.protocol) || url.search !== "" || url.hash !== "" || url.username !== "")
    throw new TypeError("endpoint must be an http: or https: URL without a query or user name")
  return url
}
