import { Context } from "effect"
import { defaultRateLimits, type RateLimits } from "./wire/RateLimiter.ts"

/** How the HTTP service listens and what it says about itself. */
export interface HttpSettings {
  readonly host: string
  /** 0 takes any free port. */
  readonly port: number
  /** What absolute URLs begin with, without a slash at the end; `http://127.0.0.1:{actual port}` when undefined. Never taken from `Host`. */
  readonly publicUrl: string | undefined
  /** `kid:base64,kid2:base64`, the first signs; when undefined one is made and kept in the `SecretStore`, so that all processes share it. */
  readonly signingKeys: string | undefined
  /** Addresses and CIDR ranges whose `X-Forwarded-For` is believed. */
  readonly trustedProxies: ReadonlyArray<string>
  readonly rateLimits: RateLimits
  /** Whether `/`, `/docs` and `/openapi.json` are served. */
  readonly pages: boolean
}

export const defaultHttpSettings: HttpSettings = {
  host: "127.0.0.1",
  port: 8787,
  publicUrl: undefined,
  signingKeys: undefined,
  trustedProxies: [],
  rateLimits: defaultRateLimits,
  pages: true,
}

/** The settings of the HTTP service; the defaults unless something else is provided. */
export const HttpConfig = Context.Reference<HttpSettings>("@kiln/http/HttpConfig", {
  defaultValue: () => defaultHttpSettings,
})
