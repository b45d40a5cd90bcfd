import * as Context from "effect/Context"
import type { OpenAiSettings } from "./openai/OpenAiContext.ts"
import { defaultRateLimits, type RateLimits } from "./wire/RateLimiter.ts"

/** Settings of the HTTP service. */
export interface HttpSettings {
  readonly host: string
  /** Port to listen on; 0 selects any free port. */
  readonly port: number
  /** Descriptor of a listening socket that this process inherited, as with systemd's socket activation. Replaces `host` and `port`. */
  readonly socket?: number | undefined
  /** Base of absolute URLs, without a trailing slash; `http://127.0.0.1:{actual port}` when undefined. Never taken from `Host`. */
  readonly publicUrl: string | undefined
  /** `kid:base64,kid2:base64`; the first key signs. When undefined, a key is generated and kept in the `SecretStore`, so that all processes share it. */
  readonly signingKeys: string | undefined
  /** Addresses and CIDR ranges of proxies whose `X-Forwarded-For` is trusted. */
  readonly trustedProxies: ReadonlyArray<string>
  readonly rateLimits: RateLimits
  /** Whether `/`, `/docs` and `/openapi.json` are served. */
  readonly pages: boolean
  /**
   * Whether the playground at `/` issues sandbox keys to its visitors. When undefined, it does if only this machine can reach the
   * service: `host` and the host of `publicUrl` are loopback addresses.
   */
  readonly playground: boolean | undefined
  /** Whether `GET /v1/files/…` redirects to a URL of the blob store, which must be able to make one. */
  readonly redirectFiles: boolean
  /** The endpoints of OpenAI's API under `/openai/v1`; not served when undefined. */
  readonly openAi: OpenAiSettings | undefined
}

export const defaultHttpSettings: HttpSettings = {
  host: "127.0.0.1",
  port: 8787,
  publicUrl: undefined,
  signingKeys: undefined,
  trustedProxies: [],
  rateLimits: defaultRateLimits,
  pages: true,
  playground: undefined,
  redirectFiles: false,
  openAi: undefined,
}

/** The settings of the HTTP service; defaults apply unless provided. */
export const HttpConfig = Context.Reference<HttpSettings>("@kiln/http/HttpConfig", {
  defaultValue: () => defaultHttpSettings,
})
