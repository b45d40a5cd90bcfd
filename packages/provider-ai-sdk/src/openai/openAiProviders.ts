import { createOpenAI } from "@ai-sdk/openai"
import { type OptionNames, requireOptions } from "@kiln/core/domain"
import { guardedFetch } from "@kiln/provider-http"
import { aiSdkProviders, type ProvidersOfModels } from "../aiSdkProviders.ts"
import { inlineImages } from "./inlineImages.ts"
import { plainTranscript } from "./plainTranscript.ts"
import { withoutKey } from "./withoutKey.ts"

/** The names of models. One that is left out leaves its port unserved. */
export interface OpenAiModels {
  readonly transcription?: string | undefined
  readonly speech?: string | undefined
  readonly reply?: string | undefined
  readonly image?: string | undefined
}

/**
 * Models of OpenAI's that suit kiln:
 *
 * - `whisper-1` reports how long the audio is, for the price of those that do not
 * - `tts-1` takes 4,096 characters, all that kiln accepts; the newer one takes 2,000 tokens, which is less in many languages
 * - `gpt-4.1-mini` does not reason: every token that is charged is one that is spoken
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
  /** Left out for a server that wants none; then no `Authorization` is sent. */
  readonly apiKey?: string | undefined
  /** `https://api.openai.com/v1` otherwise. Its origin is trusted, wherever it is. */
  readonly baseUrl?: string | undefined
  readonly models: Models & { readonly [Name in Exclude<keyof Models, keyof OpenAiModels>]: never }
  /** Further origins from which images may be fetched that are answered as a URL; public addresses may be in any case. */
  readonly trustedOrigins?: ReadonlyArray<string> | undefined
  /** What requests to trusted origins go out by; Node's own otherwise. The guard stays around it. */
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
/** How long an answer may be. An image comes as base64, a quarter hour of verbose transcript with every token's number. */
const maxBytes = { transcription: 16 * MIB, speech: 64 * MIB, reply: 4 * MIB, image: 32 * MIB } as const

/**
 * OpenAI, and every server that is compatible with it (LocalAI, vLLM, speaches, whisper.cpp): `/audio/transcriptions`,
 * `/audio/speech`, `/chat/completions` and `/images/generations` under the base URL. Replies come from chat completions,
 * since few of those servers have `/responses`.
 *
 * Throws a `TypeError` when the key has characters that no header can carry, or the base URL is no URL of http(s).
 */
export const openAiProviders = <Models extends OpenAiModels>(
  options: OpenAiOptions<Models>,
): ProvidersOfModels<Models> => {
  requireOptions("openAiProviders()", options, optionNames)
  requireOptions("models", options.models, modelNames)
  const { baseUrl = openAiBaseUrl, apiKey, trustedOrigins = [] } = options
  if (apiKey !== undefined && !/^[\x21-\x7e]+$/.test(apiKey))
    throw new TypeError("the API key has characters no key has")
  const guard = (port: keyof OpenAiModels) => ({
    trustedOrigins: [baseUrl, ...trustedOrigins],
    maxBytes: maxBytes[port],
    fetch: options.fetch,
  })
  const vendor = (fetch: typeof globalThis.fetch) =>
    // Given a key in any case: the AI SDK would look for one in the environment.
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
