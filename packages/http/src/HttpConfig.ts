import * as Context from "effect/Context"
import type { RateLimitPolicy } from "@kiln/core/domain"
import type { OpenAiSettings } from "./openai/OpenAiContext.ts"
import { parseJsonObject } from "./server/body.ts"
import { defaultRateLimits, type RateLimitName, rateLimitNames, type RateLimits } from "./server/rateLimits.ts"

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

type ParsedRateLimits =
  | { readonly ok: true; readonly limits: RateLimits }
  | { readonly ok: false; readonly problem: string }

const MAX_RATE = 1_000_000
const refused = (problem: string): ParsedRateLimits => ({ ok: false, problem })

const isRate = (value: unknown, min: number): value is number =>
  typeof value === "number" && Number.isInteger(value) && value >= min && value <= MAX_RATE

/**
 * Parses `KILN_RATE_LIMITS`: `default`, `off`, or JSON like `{"create":{"per_minute":60,"burst":30}}`. Limits that are not
 * listed keep their default, `burst` defaults to `per_minute`, and `"per_minute":0` disables one limit.
 */
export const parseRateLimits = (text: string): ParsedRateLimits => {
  const setting = text.trim()
  if (setting === "default") return { ok: true, limits: defaultRateLimits }
  const limits: Record<RateLimitName, RateLimitPolicy> = { ...defaultRateLimits }
  if (setting === "off") {
    for (const name of rateLimitNames) limits[name] = { perMinute: 0, burst: 0 }
    return { ok: true, limits }
  }
  const json = parseJsonObject(new TextEncoder().encode(setting), { maxDepth: 2 })
  if (!json.ok) return refused("must be default, off, or a JSON object of limits without duplicate keys")
  for (const [key, value] of Object.entries(json.value)) {
    const name = rateLimitNames.find((candidate) => candidate === key)
    if (name === undefined)
      return refused(`${JSON.stringify(key)} is not a limit; the limits are ${rateLimitNames.join(", ")}`)
    const policy = parsePolicy(value)
    if (typeof policy === "string") return refused(`${name}: ${policy}`)
    limits[name] = policy
  }
  return { ok: true, limits }
}

const parsePolicy = (value: unknown): RateLimitPolicy | string => {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return "must be an object"
  const fields = new Map<string, unknown>(Object.entries(value))
  for (const field of fields.keys())
    if (field !== "per_minute" && field !== "burst") return "may only contain per_minute and burst"
  const perMinute = fields.get("per_minute")
  if (!isRate(perMinute, 0)) return `per_minute must be an integer from 0 (off) to ${MAX_RATE}`
  const burst = fields.has("burst") ? fields.get("burst") : perMinute
  if (!isRate(burst, perMinute === 0 ? 0 : 1)) return `burst must be an integer from 1 to ${MAX_RATE}`
  return { perMinute, burst }
}
