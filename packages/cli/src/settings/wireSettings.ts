import { parseKeyring, parseRateLimits, parseTrustedProxies } from "@kiln/http"
import type { RateLimits } from "@kiln/http/mount"
import { broken, parsed, type SettingType } from "./SettingType.ts"

export const rateLimits: SettingType<RateLimits> = (text) => {
  const limits = parseRateLimits(text)
  return limits.ok ? parsed(limits.limits) : broken(limits.problem)
}

/** Validated here, so that all invalid settings are reported at once; parsed again when the service starts. */
export const trustedProxies: SettingType<ReadonlyArray<string>> = (text) => {
  const proxies = parseTrustedProxies(text)
  return proxies.ok ? parsed(text.split(",").map((entry) => entry.trim())) : broken(proxies.problem)
}

/** Like `trustedProxies`. Error messages never contain the key. */
export const signingKeys: SettingType<string> = (text) => {
  const keyring = parseKeyring(text)
  return keyring.ok ? parsed(text) : broken(keyring.problem)
}
