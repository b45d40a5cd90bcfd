import { isIP } from "node:net"
import { parseKeyring, parseRateLimits, parseTrustedProxies } from "@kiln/http"
import type { RateLimits } from "@kiln/http/mount"
import { broken, parsed, type SettingType } from "./SettingType.ts"

/** Parses the base of absolute URLs: http or https, optionally with a path, without a trailing slash. */
export const publicUrl: SettingType<string> = (text) => {
  const url = URL.canParse(text) ? new URL(text) : undefined
  const isPlain =
    url !== undefined &&
    /^https?:$/.test(url.protocol) &&
    url.username + url.password + url.search + url.hash === "" &&
    !/[?#\s]/.test(text)
  return isPlain
    ? parsed(url.href.replace(/\/+$/, ""))
    : broken("must be an http or https URL without a user, query or fragment")
}

const HOST_NAME = /^[0-9A-Za-z]([0-9A-Za-z.-]*[0-9A-Za-z])?$/

/** Parses a host name or address to listen on. */
export const host: SettingType<string> = (text) =>
  isIP(text) !== 0 || HOST_NAME.test(text)
    ? parsed(text)
    : broken("must be a host name or an IP address, without a port")

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
