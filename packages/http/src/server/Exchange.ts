import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import type * as Stream from "effect/Stream"
import { errorCatalogue, type ErrorEnvelope, type RefusalCode } from "@kiln/client/api"
import { isId, type JobId, type KeyId, type KeyLimits, type ProjectId } from "@kiln/core/domain"
import type { RateLimitDecision, RateLimitName } from "./rateLimits.ts"
import type { RequestSource } from "./RequestSource.ts"

/** Maximum length of a JSON body in bytes, inclusive. */
export const maxJsonBytes = 65_536

// RFC 9112, section 3.2.2: a server must accept a target in absolute form. The host in it does not matter.
const ABSOLUTE_FORM = /^https?:\/\/[^/?#]*/i

const noKeyLimits: KeyLimits = {}

/** Returns the path and query of a target, undecoded. */
export const localTarget = (target: string): string =>
  target.startsWith("/") ? target : target.replace(ABSOLUTE_FORM, "")

/** Returns whether a local target is under a prefix such as `/api/kiln`; always true for the empty prefix. */
export const isUnder = (prefix: string, local: string): boolean =>
  local.startsWith(prefix) && (prefix === "" || /^(?:[/?]|$)/.test(local.slice(prefix.length, prefix.length + 1)))

/**
 * One request and the headers of its response. Path and query are never decoded: all paths of the service are plain ASCII,
 * so another spelling is another path.
 */
export class Exchange {
  /** The id of the request: the caller's own if that is acceptable, otherwise a new one. */
  readonly requestId: string
  readonly source: RequestSource
  readonly method: string
  /** Path below the prefix; empty, which matches no route, if the request is not under the prefix. */
  readonly path: string
  /** Query without the question mark; empty if absent. Contains signatures, so it is never logged. */
  readonly rawQuery: string
  /** Headers of every response to this request, by lower-case name. */
  readonly responseHeaders: Record<string, string>
  /** The matched route, for the log: a path with placeholders. */
  route: string | undefined = undefined
  /** The value of the route's placeholder. */
  placeholder = ""
  /** The code of the error that the response has. */
  refusalCode: RefusalCode | undefined = undefined
  /** The job that the request has created. */
  createdJobId: JobId | undefined = undefined
  /** The caller, once its key was verified. */
  keyId: KeyId | undefined = undefined
  projectId: ProjectId | undefined = undefined
  /** Rate limits of its key that replace the installation's. */
  keyLimits: KeyLimits = noKeyLimits
  /** Time at which its key was verified, in milliseconds of this process's monotonic clock. */
  admittedAt = 0
  /** Bytes of the body read so far. */
  bytesRead = 0
  /** Maximum number of bytes that are read and discarded before a body is rejected. */
  discardLimit = 2 * maxJsonBytes

  constructor(requestId: string, source: RequestSource, prefix = "") {
    this.requestId = requestId
    this.responseHeaders = { "x-request-id": requestId, "x-content-type-options": "nosniff" }
    this.source = source
    this.method = source.method
    const local = localTarget(source.target)
    const target = isUnder(prefix, local) ? local.slice(prefix.length) : ""
    const question = target.indexOf("?")
    this.path = question === -1 ? target : target.slice(0, question)
    this.rawQuery = question === -1 ? "" : target.slice(question + 1)
  }

  /** The job that the request has created or names. */
  get jobId(): JobId | undefined {
    return this.createdJobId ?? (isId("job", this.placeholder) ? this.placeholder : undefined)
  }

  /** Returns the values of a header, one per header line; `undefined` if absent. */
  header(lowerCaseName: string): ReadonlyArray<string> | undefined {
    return this.source.header(lowerCaseName)
  }

  /** Returns the value of a header that must be unique; `undefined` if absent or repeated. */
  singleHeader(lowerCaseName: string): string | undefined {
    const values = this.header(lowerCaseName)
    return values?.length === 1 ? values[0] : undefined
  }

  /** Announced length of the body in bytes; `undefined` for chunked and absent bodies. */
  get contentLength(): number | undefined {
    const announced = this.singleHeader("content-length")
    return announced === undefined ? undefined : Number(announced)
  }
}

/** The result of a handler, which each type of server turns into a response. */
export interface Reply {
  readonly status: number
  /** Headers by lower-case name. */
  readonly headers: Readonly<Record<string, string>>
  /** Bytes are sent without a copy for each response. */
  readonly body: string | Uint8Array<ArrayBuffer> | Stream.Stream<Uint8Array, unknown> | undefined
}

export const jsonHeaders = { "content-type": "application/json; charset=utf-8", "cache-control": "no-store" }

export const jsonReply = (status: number, body: object, headers?: Readonly<Record<string, string>>): Reply => ({
  status,
  headers: headers === undefined ? jsonHeaders : { ...jsonHeaders, ...headers },
  body: JSON.stringify(body),
})

export const noContent: Reply = { status: 204, headers: { "cache-control": "no-store" }, body: undefined }

/** Fails a request with an error of the catalog. */
export class Refusal extends Data.TaggedError("Refusal")<{
  readonly code: RefusalCode
  /** Replaces the catalog's message. Never repeats client input. */
  readonly message?: string
  readonly param?: string
  readonly details?: Readonly<Record<string, unknown>>
  /** Additional headers, by lower-case name. */
  readonly headers?: Readonly<Record<string, string>>
  /** Only for the log. */
  readonly cause?: unknown
}> {}

export const envelopeOf = (refusal: Refusal, requestId: string): ErrorEnvelope => {
  const { message, type } = errorCatalogue[refusal.code]
  return {
    error: {
      type,
      code: refusal.code,
      message: refusal.message || message,
      param: refusal.param ?? null,
      details: refusal.details ?? null,
      request_id: requestId,
    },
  }
}

export const refusalReply = (refusal: Refusal, requestId: string): Reply => {
  const entry = errorCatalogue[refusal.code]
  return jsonReply(entry.status, envelopeOf(refusal, requestId), { ...entry.headers, ...refusal.headers })
}

/** The result of a check: at once, or after a step that may wait or fail. Steps cost the frequent requests more than most checks. */
export type Ready<A extends object> = A | Effect.Effect<A, Refusal>

/** Continues with the result of a check. */
export const whenReady = <A extends object, B, E>(
  ready: Ready<A>,
  next: (result: A) => Effect.Effect<B, E>,
): Effect.Effect<B, E | Refusal> => (Effect.isEffect(ready) ? Effect.flatMap(ready, next) : next(ready))

/** Returns the check as a step. */
export const asStep = <A extends object>(ready: Ready<A>): Effect.Effect<A, Refusal> =>
  Effect.isEffect(ready) ? ready : Effect.succeed(ready)

/** Returns the header fields of a limit (draft-ietf-httpapi-ratelimit-headers); empty if it is disabled. */
export const rateLimitHeaders = (name: RateLimitName, decision: RateLimitDecision): Readonly<Record<string, string>> =>
  decision.limit === 0
    ? {}
    : {
        "RateLimit-Policy": `"${name}";q=${decision.limit};w=60`,
        RateLimit: `"${name}";r=${decision.remaining};t=${decision.resetSeconds}`,
      }
