import { downloadFile, guardedFetch, type GuardedFetchOptions } from "@kiln/provider-http"
import * as Effect from "effect/Effect"
import { type Answer, isAnswer, rewriteJson } from "./rewriteJson.ts"

/**
 * Replaces an image URL in a response with the image: some servers return a URL although base64 was requested, and the AI
 * SDK supports only base64. The URL is fetched like any untrusted one; the key is sent only to its own origin.
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

/** Drops all other fields, such as usage, which are not used and may have any shape. */
const onlyImage = (item: Answer): Answer => ({ b64_json: item["b64_json"] })

const isText = (value: unknown): value is string => typeof value === "string" && value !== ""
