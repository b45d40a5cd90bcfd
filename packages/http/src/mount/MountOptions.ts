import type { IncomingMessage } from "node:http"
import type { JobRoute } from "@kiln/client/api"
import type { Caller } from "../server/Caller.ts"
import type { NodeRequest, NodeResponse } from "../server/NodeExchange.ts"
import type { RateLimits } from "../wire/RateLimiter.ts"

/** An engine that `createEngine` made: the one itself, whatever its kinds and its store. */
export interface MountedEngine {
  /** Ends what is mounted on it, before its worker and its stores. */
  readonly stop: () => Promise<void>
}

/** How the HTTP service lives in a server that is there already. */
export interface MountOptions<Source> {
  /**
   * Where clients reach the server: `https://app.example/api/kiln`. Absolute URLs (to poll, to upload, to download) begin with
   * it, never with what a request calls the host. It may end with the prefix or leave that out.
   */
  readonly publicUrl: string
  /**
   * What the server's paths to kiln begin with: with `/api/kiln`, jobs of speech are created at `/api/kiln/v1/audio/speech`.
   * The path of `publicUrl` by default; empty for none. It differs from that behind a proxy that takes a part of the path away.
   */
  readonly prefix?: string
  /** Requests a minute and at once, by key and by address; the contract's by default. */
  readonly rateLimits?: Partial<RateLimits>
  /** Addresses and CIDR ranges whose `X-Forwarded-For` is believed. None by default. */
  readonly trustedProxies?: ReadonlyArray<string>
  /** `kid:base64,kid2:base64`, 32 bytes or more each, the first signs. By default one that is made once and kept in the store. */
  readonly signingKeys?: string
  /** Whether `/`, `/docs` and `/openapi.json` are served, below the prefix and to everybody. Default `false`. */
  readonly pages?: boolean
  /**
   * Whether a live job is refused (403 `live_not_active`, `provider:<type>`) when no worker has served its type live within
   * the queue limit. Default `true`. With `false` it is accepted and waits for a worker.
   */
  readonly requireLiveWorker?: boolean
  /** Job kinds of one's own that are offered besides the built-in ones. */
  readonly routes?: ReadonlyArray<JobRoute>
  /**
   * Who sends a request, for programs with users of their own: in the place of kiln's API keys, which then are not asked for.
   * `undefined` for nobody: 401. Asked of every request but those to signed URLs, health and pages. What it throws is
   * answered with 503.
   */
  readonly authenticate?: (request: Source) => PromiseLike<Caller | undefined> | Caller | undefined
}

/**
 * A handler for `node:http`, for `node:http2` through its compatibility API, and for Express and Connect. Passes requests that
 * are not for kiln to `next` where there is one.
 */
export type NodeHandler = (request: NodeRequest, response: NodeResponse, next?: (error?: unknown) => void) => void

/** With HTTP/2, `authenticate` gets an `Http2ServerRequest`, which has the members that matter to it: `headers` and `socket`. */
export type NodeMountOptions = MountOptions<IncomingMessage>

/** A web-standard handler: Hono, Next.js route handlers, `Bun.serve`, `Deno.serve`. */
export type FetchHandler = (request: Request) => Promise<Response>

export interface FetchMountOptions extends MountOptions<Request> {
  /**
   * The other end of a request's connection, which a `Request` does not tell: for `trustedProxies` and the limit of failed
   * authentications. Without it all clients are one address to that limit, which never refuses a valid key.
   */
  readonly remoteAddress?: (request: Request) => string | undefined
}
