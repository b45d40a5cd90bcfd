import { lookup as systemLookup } from "node:dns"
import { createRequire } from "node:module"
import { isIP, type LookupFunction } from "node:net"
import type * as Undici from "undici"
import { abandon } from "./boundedResponse.ts"
import { causes } from "./causes.ts"
import { FetchRefused } from "./FetchRefused.ts"

/** Maximum number of redirects of a download. */
const MAX_REDIRECTS = 3

/** Headers that are sent to another origin. Any other header may be a credential, whatever its name: `xi-api-key`, `x-auth-token`. */
const headersForOthers = ["accept", "range"]

export interface PublicFetchOptions {
  /** Returns whether connections to an address are allowed. */
  readonly isAllowed: (address: string) => boolean
  /** Resolves host names. Default: `dns.lookup`. */
  readonly lookup?: LookupFunction | undefined
  /** Maximum number of redirects, default 3. */
  readonly maxRedirects?: number
}
export type PublicFetch = (request: Request) => Promise<Undici.Response>

/**
 * Creates a fetch for untrusted URLs. Each connection goes to the address that was checked for it, so DNS rebinding (a
 * name that resolves differently on check and on use) has no effect. Redirects are followed manually, each as a new
 * request; bodies, and headers other than `accept` and `range`, are not sent to another origin.
 */
export const makePublicFetch = (options: PublicFetchOptions): PublicFetch => {
  // Loaded on the first such request, because most processes never make one.
  let loaded: { readonly undici: typeof Undici; readonly dispatcher: Undici.Agent } | undefined
  const { maxRedirects = MAX_REDIRECTS } = options
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
      if (redirects === maxRedirects) throw new FetchRefused("redirects")
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

/** Refuses URLs other than http(s), and URLs with a user name, which would be sent as a credential. */
export const assertFetchable = (url: URL): void => {
  if (url.protocol !== "http:" && url.protocol !== "https:") throw new FetchRefused("url")
  if (url.username !== "" || url.password !== "") throw new FetchRefused("url")
}

/** Returns the next request of a redirect; refuses forbidden redirects. */
export const follow = (from: Hop, status: number, location: string | null): Hop => {
  const url = location === null ? null : URL.parse(location, from.url)
  if (url === null) throw new FetchRefused("redirects")
  assertFetchable(url)
  if (from.url.protocol === "https:" && url.protocol === "http:") throw new FetchRefused("redirects")
  const isSameOrigin = url.origin === from.url.origin
  const headers = isSameOrigin ? new Headers(from.headers) : forOthers(from.headers)
  // As in browsers, only 307 and 308 repeat the request unchanged.
  if (status === 307 || status === 308 || from.method === "GET" || from.method === "HEAD") {
    // The body and the credentials were intended only for the first origin.
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
        // A single private address among public ones is treated as an attack.
        const [first] = addresses
        if (first === undefined || !addresses.every(({ address }) => isAllowed(address)))
          return callback(new FetchRefused("address"), "")
        if (lookupOptions.all === true) return callback(null, addresses)
        callback(null, first.address, first.family)
      }),
  })
  return new undici.Agent({
    connect: (target, callback) => {
      // An IP address is not passed to `lookup`.
      const literal = target.hostname.replace(/^\[(.*)\]$/, "$1")
      if (isIP(literal) !== 0 && !isAllowed(literal)) return callback(new FetchRefused("address"), null)
      connect(target, callback)
    },
  })
}

/** The global under which Node's own fetch finds its dispatcher: the proxies of `NODE_USE_ENV_PROXY`, or one set by the program. */
const nodesDispatcher = Symbol.for("undici.globalDispatcher.1")

/**
 * Loads undici and leaves Node's own fetch unchanged. If Node's built-in undici is too old to mark the global dispatcher
 * as set, loading this undici replaces the dispatcher, and requests would bypass the proxy. Loaded synchronously rather
 * than with `import()`, so that no request runs in between. `Request` is accessed first, because Node sets its dispatcher
 * on the first use of fetch.
 */
const loadUndici = (): typeof Undici => {
  void new Request("http://localhost/")
  const before: unknown = Reflect.get(globalThis, nodesDispatcher)
  const undici = createRequire(import.meta.url)("undici") as typeof Undici
  Reflect.set(globalThis, nodesDispatcher, before)
  return undici
}
