import { textOf } from "./xml.ts"

/** A request that failed: an error response, a broken connection, or a response that cannot be right. */
export class S3Failure extends Error {
  override readonly name = "S3Failure"
  /** HTTP status; `undefined` if there was no response. */
  readonly status: number | undefined
  /** S3's error code, such as `SlowDown`. */
  readonly code: string | undefined
  /** Whether the same request may succeed if it is repeated. */
  readonly retryable: boolean

  constructor(
    message: string,
    about: {
      readonly status?: number | undefined
      readonly code?: string | undefined
      readonly retryable: boolean
      readonly cause?: unknown
    },
  ) {
    super(message, { cause: about.cause })
    this.status = about.status
    this.code = about.code
    this.retryable = about.retryable
  }
}

const retryableStatuses = new Set([408, 429, 500, 502, 503, 504])
const expiredCodes = new Set(["ExpiredToken", "InvalidToken", "TokenRefreshRequired"])
const retryableCodes = new Set([
  ...expiredCodes,
  "InternalError",
  "OperationAborted",
  "RequestTimeout",
  "ServiceUnavailable",
  "SlowDown",
])

/** The credentials expired, and newer ones may exist. */
export const isExpired = ({ code }: S3Failure): boolean => code !== undefined && expiredCodes.has(code)

const remedies: Readonly<Record<string, string>> = {
  AccessDenied:
    "allow s3:ListBucket, s3:ListBucketMultipartUploads, s3:GetObject, s3:PutObject, s3:DeleteObject and " +
    "s3:AbortMultipartUpload to these credentials",
  InvalidAccessKeyId: "check AWS_ACCESS_KEY_ID, or the profile that AWS_PROFILE names",
  NoSuchBucket: "create the bucket, or correct its name",
  RequestTimeTooSkewed: "correct the clock of this machine",
  SignatureDoesNotMatch: "check AWS_SECRET_ACCESS_KEY and the endpoint",
}

/** Error codes of responses that have no body, such as those to HEAD. */
const codesByStatus: Readonly<Record<number, string>> = { 403: "AccessDenied", 404: "NotFound", 503: "SlowDown" }

const remedyOf = (status: number, code: string, region: string | undefined): string | undefined =>
  status === 301 || status === 307 || code === "AuthorizationHeaderMalformed"
    ? `set the region of the bucket${region === undefined ? "" : `: region=${region}`}`
    : remedies[code]

/** Reads an error response. Takes over only the code and the message, because other elements repeat parts of the request. */
export const failureOf = (response: {
  readonly status: number
  readonly text: string
  readonly region: string | undefined
}): S3Failure => {
  const { status, text } = response
  const code = textOf(text, "Code") ?? codesByStatus[status] ?? "no code"
  const said = textOf(text, "Message")?.slice(0, 200)
  const remedy = remedyOf(status, code, textOf(text, "Region") ?? response.region)
  return new S3Failure(
    `S3 responded ${status} ${code}${said === undefined ? "" : ` (${said})`}${remedy === undefined ? "" : `: ${remedy}`}`,
    { status, code, retryable: retryableStatuses.has(status) || retryableCodes.has(code) },
  )
}

/** A connection that could not be opened, broke or stalled. */
export const connectionFailure = (host: string, cause: unknown): S3Failure =>
  cause instanceof S3Failure
    ? cause
    : new S3Failure(`cannot reach ${host}: ${reasonOf(cause)}`, { retryable: true, cause })

const reasonOf = (cause: unknown): string => {
  if (cause instanceof AggregateError && cause.errors.length > 0) return reasonOf(cause.errors[0])
  if (!(cause instanceof Error)) return String(cause)
  return cause.message === "" ? cause.name : cause.message
}
