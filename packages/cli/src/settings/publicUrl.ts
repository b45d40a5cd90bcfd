import { isIP } from "node:net"
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
