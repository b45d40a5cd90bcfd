import { Effect } from "effect"
import { HttpSettingInvalid } from "./HttpSettingInvalid.ts"

const problem = "must be an http or https URL without user, query or fragment"

/** What absolute URLs begin with, without a slash at the end; `undefined` when nothing is configured. */
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
