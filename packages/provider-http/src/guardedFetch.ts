import type { LookupFunction } from "node:net"
import { type OptionNames, requireNumber, requireOptions } from "@kiln/core/domain"
import { abandon, boundedResponse } from "./boundedResponse.ts"
import { FetchRefused } from "./FetchRefused.ts"
import { isPublicAddress } from "./isPublicAddress.ts"
import { assertFetchable, isRedirect, makePublicFetch, type PublicFetch } from "./publicFetch.ts"

export interface GuardedFetchOptions {
  /** Origins configured by the operator, for example `http://127.0.0.1:8080`; of a longer URL, only the origin counts. */
  readonly trustedOrigins?: ReadonlyArray<string> | undefined
  /** Maximum length of a response body in bytes, after decompression. */
  readonly maxBytes: number
  /** The fetch for requests to trusted origins. Default: Node's own, with its configured proxies and certificates. */
  readonly fetch?: typeof globalThis.fetch | undefined
  /** Resolves host names of other origins. Default: `dns.lookup`. */
  readonly lookup?: LookupFunction | undefined
}

const optionNames: OptionNames<GuardedFetchOptions> = {
  trustedOrigins: true,
  maxBytes: true,
  fetch: true,
  lookup: true,
}

/**
 * Creates a fetch for requests to providers, and for results that they return as URLs.
 *
 * - Trusted origins: uses Node's own fetch and refuses redirects, because the request carries credentials.
 * - Other origins: http(s) to public addresses only, whatever a name resolves to; at most 3 redirects, never from https to
 *   http. A redirect to another origin keeps only the headers `accept` and `range`, and no body. Proxies are not used.
 *
 * Rejects with `FetchRefused`, before the response or while its body is read. Has no timeout: pass an abort signal.
 * Throws `TypeError` for unknown options and for a trusted origin that is not a URL.
 */
export const guardedFetch = (options: GuardedFetchOptions): typeof globalThis.fetch =>
  guardFetch(options, makePublicFetch({ isAllowed: isPublicAddress, lookup: options.lookup }))

/** Like `guardedFetch`, with another fetch for public addresses. */
export const guardFetch = (options: GuardedFetchOptions, publicFetch: PublicFetch): typeof globalThis.fetch => {
  requireOptions("guardedFetch()", options, optionNames)
  // A missing limit or NaN would allow any length.
  requireNumber("maxBytes", options.maxBytes, { least: 0 })
  const trusted = new Set((options.trustedOrigins ?? []).map(originOf))
  return async (input, init) => {
    const url = new URL(typeof input === "object" && "url" in input ? input.url : input)
    assertFetchable(url)
    if (!trusted.has(url.origin)) return boundedResponse(await publicFetch(new Request(input, init)), options.maxBytes)
    // Read on each call, because a program may replace it later.
    const response = await (options.fetch ?? globalThis.fetch)(input, { ...init, redirect: "manual" })
    if (!isRedirect(response.status)) return boundedResponse(response, options.maxBytes)
    abandon(response)
    throw new FetchRefused("redirected")
  }
}

const originOf = (text: string): string => {
  const url = URL.parse(text)
  if (url === null || (url.protocol !== "http:" && url.protocol !== "https:"))
    throw new TypeError("a trusted origin must be an http or https URL")
  return url.origin
}
