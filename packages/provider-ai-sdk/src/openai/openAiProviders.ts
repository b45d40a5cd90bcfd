import { createOpenAI } from "@ai-sdk/openai"
import { type OptionNames, requireOptions } from "@kiln/core/domain"
import { guardedFetch } from "@kiln/provider-http"
import { aiSdkProviders, type ProvidersOfModels } from "../aiSdkProviders.ts"
import { inlineImages } from "./inlineImages.ts"
import { plainTranscript } from "./plainTranscript.ts"
import { withoutKey } from "./withoutKey.ts"

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
