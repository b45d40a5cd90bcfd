import { downloadFile, guardedFetch, type GuardedFetchOptions } from "@kiln/provider-http"
import { Effect } from "effect"
import { type Answer, isAnswer, rewriteJson } from "./rewriteJson.ts"

/**
 * Makes of an image that is answered as a URL one that is answered whole: servers give a URL although base64 was asked
 * for, and the AI SDK knows base64 alone. It is fetched like any address a stranger has chosen; the key goes along to the
 * origin it belongs to and nowhere else.
 */
export const inlineImages = (
  guard: GuardedFetchOptions,
  own: { readonly baseUrl: string; readonly apiKey: string | undefined },
): typeof globalThis.fetch =>
  rewriteJson(guardedFetch(guard), async ({ data }, signal) => {
    const item: unknown = Array.isArray(data) ? data[0] : undefined
    if (!isAnswer(item)) return { data }
    if (isText(item["b64_json"]) || !isText(item["url"])) return { data: [onlyImage(item)] }
    const url = item["url"]
    const isOwn = URL.canParse(url) && new URL(url).origin === new URL(own.baseUrl).origin
    const headers = isOwn && own.apiKey !== undefined ? { authorization: `Bearer ${own.apiKey}` } : {}
    const file = await Effect.runPromise(
      downloadFile(url, { ...guard, headers }),
      signal === undefined ? {} : { signal },
    )
    return { data: [{ b64_json: Buffer.from(file.data).toString("base64") }] }
  })

/** What else is said, usage for one, is not used and may have any shape. */
const onlyImage = (item: Answer): Answer => ({ b64_json: item["b64_json"] })

const isText = (value: unknown): value is string => typeof value === "string" && value !== ""
