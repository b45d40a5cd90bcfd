import {
  type ProviderError,
  providerBroken,
  providerRefused,
  providerUnavailable,
  resultInvalid,
} from "@kiln/core/providers"
import { classOfCode } from "./ErrorCodes.ts"
import { type HeaderLookup, retryAfterMs } from "./retryAfterMs.ts"

export interface HttpFailure {
  /** HTTP status; `undefined` without a response. */
  readonly status?: number | undefined
  readonly headers?: Headers | Readonly<Record<string, string>> | undefined
  /** `error.code` and `error.type` of the response body. */
  readonly code?: unknown
  readonly type?: unknown
  /** Current time in Unix milliseconds. Used if `Retry-After` is a date and the response has no `Date`. */
  readonly nowMs?: number | undefined
}

/**
 * Classifies an error response, by its code if the code is known, otherwise by its status:
 *
 * - retried: no response, 408, 409, 425, 429, 5xx, a 403 without a code, and every status not listed here
 * - refused: 400, 413, 414, 415, 422, 431, and a 404 about something other than the model
 * - broken: 401, 402 (quota), 403 with a code, 404, 405, 407, 410, and redirects
 *
 * Broken pauses the provider for all callers, so the content of a single request must never cause it. Therefore a 400 is
 * broken only if its code is about key, model or quota (`unsupported_parameter` may be caused by an optional field of one
 * caller), and a 403 needs a code, because firewalls reject texts with a plain 403.
 *
 * `detail` is the status and the code if it looks like one. Messages are left out: they repeat prompts and parts of keys.
 */
export const classifyHttp = (failure: HttpFailure): ProviderError => {
  const { status } = failure
  const codes = [failure.code, failure.type].filter(isErrorCode)
  const detail = [status === undefined ? "no response" : `HTTP ${status}`, ...codes].join(" ")
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

/** Returns whether something chosen by the caller is missing, such as a voice. Treating it as broken would block all callers. */
const missesSomethingElse = (code: string): boolean => /^(voice|file|language)\w*_not_found$/i.test(code)

/** Codes are words without digits, so that no key looks like one. */
const ERROR_CODE = /^[a-z][a-z_.-]{0,63}$/i
const isErrorCode = (value: unknown): value is string => typeof value === "string" && ERROR_CODE.test(value)

/** Recognizes `Headers` of other realms and of libraries too. */
const isHeaders = (headers: NonNullable<HttpFailure["headers"]>): headers is Headers =>
  typeof headers.get === "function"

const lookupIn = (headers: HttpFailure["headers"]): HeaderLookup => {
  if (headers === undefined) return () => undefined
  const known = isHeaders(headers) ? headers : new Headers({ ...headers })
  return (name) => known.get(name) ?? undefined
}
