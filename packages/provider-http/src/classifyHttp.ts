import {
  type ProviderError,
  providerBroken,
  providerRefused,
  providerUnavailable,
  resultInvalid,
} from "@kiln/core/ports"
import { classOfCode } from "./ErrorCodes.ts"
import { type HeaderLookup, retryAfterMs } from "./retryAfterMs.ts"

export interface HttpFailure {
  /** `undefined` where there was no answer. */
  readonly status?: number | undefined
  readonly headers?: Headers | Readonly<Record<string, string>> | undefined
  /** `error.code` and `error.type` of the answer. */
  readonly code?: unknown
  readonly type?: unknown
  /** For a `Retry-After` that is a date, in an answer that has no `Date`: milliseconds since 1970. */
  readonly nowMs?: number | undefined
}

/**
 * What an answer with an error means. By the code where there is a known one, otherwise by the status:
 *
 * - tried again: no answer, 408, 409, 425, 429, 5xx, a bare 403, and every status nobody has thought of
 * - refused: 400, 413, 414, 415, 422, 431, and a 404 that misses something else than the model
 * - broken: 401, 402 (quota), 403 with a reason, 404, 405, 407, 410, and redirects
 *
 * Broken pauses a provider for everybody, so nothing that the content of one request can bring about may lead there. That
 * is why a 400 is broken by a code about key, model or money alone (`unsupported_parameter` may be due to an optional
 * field of one caller), and why a 403 must give a reason: firewalls answer a text they dislike with a bare one.
 *
 * `detail` is the status and, where it looks like one, the code: messages repeat prompts and parts of keys.
 */
export const classifyHttp = (failure: HttpFailure): ProviderError => {
  const { status } = failure
  const codes = [failure.code, failure.type].filter(isErrorCode)
  const detail = [status === undefined ? "no answer" : `HTTP ${status}`, ...codes].join(" ")
  if (status === undefined) return providerUnavailable(detail)
  const wait = retryAfterMs(lookupIn(failure.headers), failure.nowMs)
  const said = new Set(codes.map(classOfCode))
  if (status < 300) return resultInvalid(detail)
  if (said.has("content")) return providerRefused("content", detail)
  if (status === 402 || said.has("quota")) return providerBroken("quota", detail, wait)
  if (status >= 500 || temporary.has(status)) return providerUnavailable(detail, wait)
  if (said.has("configuration")) return providerBroken("configuration", detail, wait)
  if (refused.has(status) || (status === 404 && codes.some(missesSomethingElse)))
    return providerRefused("input", detail)
  if (status < 400 || broken.has(status) || (status === 403 && codes.length > 0))
    return providerBroken("configuration", detail, wait)
  return providerUnavailable(detail, wait)
}

const temporary: ReadonlySet<number> = new Set([408, 409, 425, 429])
const refused: ReadonlySet<number> = new Set([400, 413, 414, 415, 422, 431])
const broken: ReadonlySet<number> = new Set([401, 404, 405, 407, 410])

/** A voice, for example, of which a caller has the choice; all of them would wait for one that is missing. */
const missesSomethingElse = (code: string): boolean => /^(voice|file|language)\w*_not_found$/i.test(code)

/** Codes are words. Without digits, so that no key passes for one. */
const ERROR_CODE = /^[a-z][a-z_.-]{0,63}$/i
const isErrorCode = (value: unknown): value is string => typeof value === "string" && ERROR_CODE.test(value)

/** Also those of another realm or of a library. */
const isHeaders = (headers: NonNullable<HttpFailure["headers"]>): headers is Headers =>
  typeof headers.get === "function"

const lookupIn = (headers: HttpFailure["headers"]): HeaderLookup => {
  if (headers === undefined) return () => undefined
  const known = isHeaders(headers) ? headers : new Headers({ ...headers })
  return (name) => known.get(name) ?? undefined
}
