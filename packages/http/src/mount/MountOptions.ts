import type { IncomingMessage } from "node:http"
import type { JobRoute } from "@kiln/client"
import type { Caller } from "../server/Caller.ts"
import type { RateLimits } from "../server/rateLimits.ts"

/** An engine returned by `createEngine`, with any kinds and any store. */
export interface MountedEngine {
  /** Stops the mounted services, then the worker, then the stores. */
  readonly stop: () => Promise<void>
}

/** Options of an HTTP service that is mounted into an existing server. */
export interface MountOptions<Source> {
  /**
   * The URL under which clients reach the server: `https://app.example/api/kiln`. Base of absolute URLs (for polling, uploads
   * and downloads); the request's `Host` is never used. May be given with or without the prefix.
   */
  readonly publicUrl: string
  /**
   * Path prefix on the server: with `/api/kiln`, speech jobs are created at `/api/kiln/v1/audio/speech`. Default: the path of
   * `publicUrl`; an empty string means no prefix. Differs from that path behind a proxy that strips part of it.
   */
  readonly prefix?: string
  /** Requests per minute and burst, by key and by address; defaults as documented for `/v1`. */
  readonly rateLimits?: Partial<RateLimits>
  /** Addresses and CIDR ranges of proxies whose `X-Forwarded-For` is trusted. Default: empty. */
  readonly trustedProxies?: ReadonlyArray<string>
  /** `kid:base64,kid2:base64`, at least 32 bytes each; the first key signs. Default: a generated key that is kept in the store. */
  readonly signingKeys?: string
  /** Whether `/`, `/docs` and `/openapi.json` are served publicly under the prefix. Default `false`. */
  readonly pages?: boolean
  /**
   * Whether the page at `/` issues sandbox keys to its visitors, which expire after an hour. Requires `pages`, and cannot be
   * combined with `authenticate`. Default `false`.
   */
  readonly playground?: boolean
  /**
   * Whether a live job is rejected (403 `live_not_active`, `provider:<type>`) if no worker has served its type live within
   * the queue limit. Default `true`. With `false` it is accepted and waits for a worker.
   */
  readonly requireLiveWorker?: boolean
  /** Whether clients of OpenAI's API are served under `/openai/v1` below the prefix. Default `false`. */
  readonly openai?: boolean
  /** Custom job kinds, offered in addition to the built-in ones. */
  readonly routes?: ReadonlyArray<JobRoute>
  /**
   * Identifies the caller of a request, for programs with their own users. Replaces kiln's API keys. `undefined` results in
   * 401; an exception in 503. Called for every request except those to signed URLs, health endpoints and pages.
   */
  readonly authenticate?: (request: Source) => PromiseLike<Caller | undefined> | Caller | undefined
}

/** With HTTP/2, `authenticate` receives an `Http2ServerRequest`, which has the relevant members `headers` and `socket`. */
export type NodeMountOptions = MountOptions<IncomingMessage>

/** A web-standard handler: Hono, Next.js route handlers, `Bun.serve`, `Deno.serve`. */
export type FetchHandler = (request: Request) => Promise<Response>

export interface FetchMountOptions extends MountOptions<Request> {
  /**
   * Returns the remote address of a request's connection, which a `Request` does not contain. Used for `trustedProxies` and
   * for the limit of failed authentications. Without it, all clients share one address in that limit; valid keys are never
   * rejected by it.
   */
  readonly remoteAddress?: (request: Request) => string | undefined
}
