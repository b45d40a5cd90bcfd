import { parseKeyring, parseRateLimits, parseTrustedProxies, type RateLimits } from "@kiln/http"
import { broken, parsed, type SettingType } from "./SettingType.ts"

export const rateLimits: SettingType<RateLimits> = (text) => {
  const limits = parseRateLimits(text)
  return limits.ok ? parsed(limits.limits) : broken(limits.problem)
}

/** Checked here, so that all that is wrong is said at once; read where the service starts. */
export const trustedProxies: SettingType<ReadonlyArray<string>> = (text) => {
  const proxies = parseTrustedProxies(text)
  return proxies.ok ? parsed(text.split(",").map((entry) => entry.trim())) : broken(proxies.problem)
}

/** As `trustedProxies`. A broken rule says nothing of the key itself. */
export const signingKeys: SettingType<string> = (text) => {
  const keyring = parseKeyring(text)
  return keyring.ok ? parsed(text) : broken(keyring.problem)
}
