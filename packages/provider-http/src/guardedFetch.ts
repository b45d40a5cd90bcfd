import type { LookupFunction } from "node:net"
import { type OptionNames, requireNumber, requireOptions } from "@kiln/core/domain"
import { abandon, boundedResponse } from "./boundedResponse.ts"
import { FetchRefused } from "./FetchRefused.ts"
import { isPublicAddress } from "./isPublicAddress.ts"
import { assertFetchable, isRedirect, makePublicFetch, type PublicFetch } from "./publicFetch.ts"

export interface GuardedFetchOptions {
  /** Origins the operator has configured himself, for example `http://127.0.0.1:8080`; of a longer URL, its origin. */
  readonly trustedOrigins?: ReadonlyArray<string> | undefined
  /** Of a response body, after decompression. */
  readonly maxBytes: number
  /** What requests to trusted origins go out by. Node's own otherwise, with the proxies and certificates it was told of. */
  readonly fetch?: typeof globalThis.fetch | undefined
  /** How names are resolved that are not of a trusted origin; `dns.lookup` otherwise. */
  readonly lookup?: LookupFunction | undefined
}

const optionNames: OptionNames<GuardedFetchOptions> = {
  trustedOrigins: true,
  maxBytes: true,
  fetch: true,
  lookup: true,
}

/**
 * A fetch for requests to providers, and for results they give as a URL.
 *
 * - To a trusted origin: by Node's own fetch; a redirect is refused, since the request carries credentials.
 * - To anybody else: http(s) to addresses of the public internet alone, whatever a name resolves to; at most 3 redirects,
 *   never from https to http; to another origin with no header but `accept` and `range`, and with no body. Proxies are not used.
 *
 * It refuses with `FetchRefused`, before the answer or while its body is read. It knows no time limit: abort it.
 * Throws a `TypeError` for options that do not exist, and when a trusted origin is no URL.
 */
export const guardedFetch = (options: GuardedFetchOptions): typeof globalThis.fetch =>
  guardFetch(options, makePublicFetch({ isAllowed: isPublicAddress, lookup: options.lookup }))

/** The same, with another idea of what is public. */
export const guardFetch = (options: GuardedFetchOptions, publicFetch: PublicFetch): typeof globalThis.fetch => {
  requireOptions("guardedFetch()", options, optionNames)
  // Without one, or with NaN, nothing would be too long.
  requireNumber("maxBytes", options.maxBytes, { least: 0 })
  const trusted = new Set((options.trustedOrigins ?? []).map(originOf))
  return async (input, init) => {
    const url = new URL(typeof input === "object" && "url" in input ? input.url : input)
    assertFetchable(url)
    if (!trusted.has(url.origin)) return boundedResponse(await publicFetch(new Request(input, init)), options.maxBytes)
    // Looked up at each call: a program may replace it after this was made.
    const response = await (options.fetch ?? globalThis.fetch)(input, { ...init, redirect: "manual" })
    if (!isRedirect(response.status)) return boundedResponse(response, options.maxBytes)
    abandon(response)
    throw new FetchRefused("redirected")
  }
}

const originOf = (text: string): string => {
  const url = URL.parse(text)
  if (url === null || (url.protocol !== "http:" && url.protocol !== "https:"))
    throw new TypeError("a trusted origin must be a URL of http or https")
  return url.origin
}
