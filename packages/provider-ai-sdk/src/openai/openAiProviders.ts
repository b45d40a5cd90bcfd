import { createOpenAI } from "@ai-sdk/openai"
import * as Effect from "effect/Effect"
import { type OptionNames, requireOptions } from "@kiln/core/domain"
import { downloadFile, guardedFetch, type GuardedFetchOptions } from "@kiln/provider-http"
import { aiSdkProviders, type ProvidersOfModels } from "../aiSdkProviders.ts"
import { type Answer, isAnswer, rewriteJson } from "./rewriteJson.ts"

/** Model names. Without a name, its port is not served. */
export interface OpenAiModels {
  readonly transcription?: string | undefined
  readonly speech?: string | undefined
  readonly reply?: string | undefined
  readonly image?: string | undefined
}

/**
 * OpenAI models that suit kiln:
 *
 * - `whisper-1` reports the duration of the audio, at the price of models that do not
 * - `tts-1` accepts 4,096 characters, kiln's maximum; the newer model accepts 2,000 tokens, which is less in many languages
 * - `gpt-4.1-mini` does not reason, so every charged token is spoken
 * - `gpt-image-1-mini` is the cheapest
 */
export const openAiModels = {
  transcription: "whisper-1",
  speech: "tts-1",
  reply: "gpt-4.1-mini",
  image: "gpt-image-1-mini",
} as const satisfies OpenAiModels

export const openAiBaseUrl = "https://api.openai.com/v1"

export interface OpenAiOptions<Models extends OpenAiModels = OpenAiModels> {
  /** Omit it for a server without keys; no `Authorization` is sent then. */
  readonly apiKey?: string | undefined
  /** Default: `https://api.openai.com/v1`. Its origin is trusted, even if it is private. */
  readonly baseUrl?: string | undefined
  readonly models: Models & { readonly [Name in Exclude<keyof Models, keyof OpenAiModels>]: never }
  /** Further origins from which image URLs may be fetched; public addresses are always allowed. */
  readonly trustedOrigins?: ReadonlyArray<string> | undefined
  /** The fetch for requests to trusted origins. Default: Node's own. The guard still applies. */
  readonly fetch?: typeof globalThis.fetch | undefined
}

const optionNames: OptionNames<OpenAiOptions> = {
  apiKey: true,
  baseUrl: true,
  models: true,
  trustedOrigins: true,
  fetch: true,
}
const modelNames: OptionNames<OpenAiModels> = { transcription: true, speech: true, reply: true, image: true }

const MIB = 1024 * 1024
/** Maximum length of responses in bytes. Images are base64; a verbose transcript of 15 minutes lists every token. */
const maxBytes = { transcription: 16 * MIB, speech: 64 * MIB, reply: 4 * MIB, image: 32 * MIB } as const

/**
 * Creates providers for OpenAI and compatible servers (LocalAI, vLLM, speaches, whisper.cpp): `/audio/transcriptions`,
 * `/audio/speech`, `/chat/completions` and `/images/generations` under the base URL. Replies use chat completions, because
 * few compatible servers have `/responses`.
 *
 * Throws `TypeError` if the key contains characters that are invalid in a header, or if the base URL is not an http(s) URL.
 */
export const openAiProviders = <Models extends OpenAiModels>(
  options: OpenAiOptions<Models>,
): ProvidersOfModels<Models> => {
  requireOptions("openAiProviders()", options, optionNames)
  requireOptions("models", options.models, modelNames)
  const { baseUrl = openAiBaseUrl, apiKey, trustedOrigins = [] } = options
  if (apiKey !== undefined && !/^[\x21-\x7e]+$/.test(apiKey))
    throw new TypeError("the API key contains invalid characters")
  const guard = (port: keyof OpenAiModels) => ({
    trustedOrigins: [baseUrl, ...trustedOrigins],
    maxBytes: maxBytes[port],
    fetch: options.fetch,
  })
  const vendor = (fetch: typeof globalThis.fetch) =>
    // Always pass a key, because the AI SDK would read one from the environment.
    createOpenAI({
      baseURL: baseUrl,
      apiKey: apiKey ?? "none",
      fetch: apiKey === undefined ? withoutKey(fetch) : fetch,
    })
  const { transcription, speech, reply, image }: OpenAiModels = options.models
  return aiSdkProviders({
    transcription:
      transcription === undefined
        ? undefined
        : vendor(plainTranscript(guardedFetch(guard("transcription")))).transcription(transcription),
    speech: speech === undefined ? undefined : vendor(guardedFetch(guard("speech"))).speech(speech),
    reply: reply === undefined ? undefined : vendor(guardedFetch(guard("reply"))).chat(reply),
    image: image === undefined ? undefined : vendor(inlineImages(guard("image"), { baseUrl, apiKey })).image(image),
  }) as ProvidersOfModels<Models>
}

/**
 * Replaces an image URL in a response with the image: some servers return a URL although base64 was requested, and the AI
 * SDK supports only base64. The URL is fetched like any untrusted one; the key is sent only to its own origin.
 */
const inlineImages = (
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

/**
 * Keeps only the fields of a transcript that are used. The AI SDK rejects the whole response if a segment lacks one of ten
 * fields, as with whisper.cpp and LocalAI, or if the duration is a string, as OpenAI long documented it.
 */
const plainTranscript = (fetch: typeof globalThis.fetch): typeof globalThis.fetch =>
  rewriteJson(fetch, ({ text, duration, usage }) => ({
    text,
    duration: typeof duration === "string" ? finiteOrNull(duration) : typeof duration === "number" ? duration : null,
    ...(isAnswer(usage) ? { usage } : {}),
  }))

const finiteOrNull = (text: string): number | null =>
  text.trim() !== "" && Number.isFinite(Number(text)) ? Number(text) : null

/** Removes the `Authorization` that the AI SDK always sends, because a server without keys may reject a wrong one. */
const withoutKey =
  (fetch: typeof globalThis.fetch): typeof globalThis.fetch =>
  (input, init) => {
    const headers = new Headers(init?.headers)
    headers.delete("authorization")
    return fetch(input, { ...init, headers })
  }
