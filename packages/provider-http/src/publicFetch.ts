import { lookup as systemLookup } from "node:dns"
import { isIP, type LookupFunction } from "node:net"
import type * as Undici from "undici"
import { abandon } from "./boundedResponse.ts"
import { causes } from "./causes.ts"
import { FetchRefused } from "./FetchRefused.ts"
import { loadUndici } from "./loadUndici.ts"

/** How often a download may be sent elsewhere. */
const MAX_REDIRECTS = 3

/** What goes along to another origin. Any other header may be a credential, whatever its name: `xi-api-key`, `x-auth-token`. */
const headersForOthers = ["accept", "range"]

export interface PublicFetchOptions {
  /** Which addresses may be connected to. */
  readonly isAllowed: (address: string) => boolean
  /** How names are resolved; `dns.lookup` otherwise. */
  readonly lookup?: LookupFunction | undefined
}
export type PublicFetch = (request: Request) => Promise<Undici.Response>

/**
 * A fetch for addresses that strangers have chosen. Every connection is made to an address that was judged at that very
 * moment, so a name that resolves to one thing when it is checked and to another when it is used gains nothing. Redirects
 * are followed by hand, each like a new request; headers (but for `accept` and `range`) and bodies stay with their origin.
 */
export const makePublicFetch = (options: PublicFetchOptions): PublicFetch => {
  // Loaded with the first such request: most processes never make one.
  let loaded: { readonly undici: typeof Undici; readonly dispatcher: Undici.Agent } | undefined
  return async (request) => {
    if (loaded === undefined) {
      const undici = loadUndici()
      loaded = { undici, dispatcher: makeAgent(undici, options) }
    }
    const { undici, dispatcher } = loaded
    const body = request.body === null ? null : new Uint8Array(await request.arrayBuffer())
    let hop: Hop = { url: new URL(request.url), method: request.method, headers: new Headers(request.headers), body }
    for (let redirects = 0; ; redirects++) {
      const response = await undici
        .fetch(hop.url, {
          method: hop.method,
          headers: [...hop.headers],
          body: hop.body,
          redirect: "manual",
          signal: request.signal,
          dispatcher,
        })
        .catch((error: unknown) => {
          throw causes(error).find((cause) => cause instanceof FetchRefused) ?? error
        })
      if (!isRedirect(response.status)) return response
      abandon(response)
      if (redirects === MAX_REDIRECTS) throw new FetchRefused("redirects")
      hop = follow(hop, response.status, response.headers.get("location"))
    }
  }
}

interface Hop {
  readonly url: URL
  readonly method: string
  readonly headers: Headers
  readonly body: Uint8Array<ArrayBuffer> | null
}

export const isRedirect = (status: number): boolean => status >= 300 && status < 400 && status !== 304

/** An address strangers may name: http(s), and no user name, which would be sent along as a credential. */
export const assertFetchable = (url: URL): void => {
  if (url.protocol !== "http:" && url.protocol !== "https:") throw new FetchRefused("url")
  if (url.username !== "" || url.password !== "") throw new FetchRefused("url")
}

/** The next request of a redirect, or a refusal. */
export const follow = (from: Hop, status: number, location: string | null): Hop => {
  const url = location === null ? null : URL.parse(location, from.url)
  if (url === null) throw new FetchRefused("redirects")
  assertFetchable(url)
  if (from.url.protocol === "https:" && url.protocol === "http:") throw new FetchRefused("redirects")
  const isSameOrigin = url.origin === from.url.origin
  const headers = isSameOrigin ? new Headers(from.headers) : forOthers(from.headers)
  // As every browser does: only 307 and 308 repeat a request as it was.
  if (status === 307 || status === 308 || from.method === "GET" || from.method === "HEAD") {
    // The body was meant for the first origin, as its credentials were.
    if (!isSameOrigin && from.body !== null) throw new FetchRefused("redirects")
    return { ...from, url, headers }
  }
  for (const name of ["content-type", "content-length", "content-encoding", "content-language"]) headers.delete(name)
  return { url, headers, method: "GET", body: null }
}

const forOthers = (headers: Headers): Headers =>
  new Headers(
    headersForOthers.flatMap((name): Array<[string, string]> => {
      const value = headers.get(name)
      return value === null ? [] : [[name, value]]
    }),
  )

const makeAgent = (undici: typeof Undici, { isAllowed, lookup = systemLookup }: PublicFetchOptions): Undici.Agent => {
  const connect = undici.buildConnector({
    lookup: (hostname, lookupOptions, callback) =>
      lookup(hostname, { ...lookupOptions, all: true }, (error, found) => {
        if (error !== null) return callback(error, "")
        const addresses = typeof found === "string" ? [{ address: found, family: isIP(found) }] : found
        // One bad address among good ones is an attempt to be connected to it in the end.
        const [first] = addresses
        if (first === undefined || !addresses.every(({ address }) => isAllowed(address)))
          return callback(new FetchRefused("address"), "")
        if (lookupOptions.all === true) return callback(null, addresses)
        callback(null, first.address, first.family)
      }),
  })
  return new undici.Agent({
    connect: (target, callback) => {
      // No name, nothing to look up: `lookup` is not asked.
      const literal = target.hostname.replace(/^\[(.*)\]$/, "$1")
      if (isIP(literal) !== 0 && !isAllowed(literal)) return callback(new FetchRefused("address"), null)
      connect(target, callback)
    },
  })
}
