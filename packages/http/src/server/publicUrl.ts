import * as Effect from "effect/Effect"
import { HttpSettingInvalid } from "./HttpSettingInvalid.ts"

const problem = "must be an http or https URL without user, query or fragment"

/** Parses the base of absolute URLs, without a trailing slash; `undefined` if not configured. */
export const parsePublicUrl = (
  configured: string | undefined,
): Effect.Effect<string | undefined, HttpSettingInvalid> => {
  if (configured === undefined) return Effect.succeed(undefined)
  const url = URL.parse(configured)
  const isUsable =
    url !== null &&
    /^https?:$/.test(url.protocol) &&
    url.username + url.password + url.search + url.hash === "" &&
    !/[?#]/.test(configured)
  return isUsable
    ? Effect.succeed(url.href.replace(/\/+$/, ""))
    : Effect.fail(new HttpSettingInvalid({ setting: "publicUrl", problem }))
}

const loopback = /^(?:localhost|127(?:\.\d+){3}|\[?::1\]?)$/

/** Returns whether a service that listens on `host`, and says that its address is `publicUrl`, serves only this machine. */
export const isOnlyLocal = (host: string, publicUrl: string | undefined): boolean =>
  loopback.test(host) && (publicUrl === undefined || loopback.test(new URL(publicUrl).hostname))
