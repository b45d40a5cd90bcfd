import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import type { ProviderSet } from "@kiln/core/providers"
import { causeMessage, type CommandFailed, failed, misused } from "./CommandFailed.ts"
import { type OpenAiPlace, openAiProblem } from "./settings/openAi.ts"

/** Loaded on demand, so that other configurations do not wait for OpenAI's libraries. */
const loadProviders = Effect.tryPromise({
  try: () => import("@kiln/provider-ai-sdk"),
  catch: (cause) => failed(`cannot load the providers of KILN_PROVIDER=openai: ${causeMessage(cause)}`),
})

/**
 * Creates the providers of `KILN_PROVIDER=openai`, with OpenAI's models by default. Logs the models and the URL; makes no
 * network calls.
 */
export const loadOpenAi = (place: OpenAiPlace): Effect.Effect<ProviderSet, CommandFailed> =>
  Effect.gen(function* () {
    const problem = openAiProblem(place)
    if (problem !== undefined) return yield* misused(problem)
    const { apiKey, baseUrl } = place
    const { openAiBaseUrl, openAiModels, openAiProviders } = yield* loadProviders
    const modelOf = (port: keyof typeof openAiModels): string | undefined => {
      const named = place.models[port]
      return named === null ? undefined : (named ?? openAiModels[port])
    }
    const models = {
      transcription: modelOf("transcription"),
      speech: modelOf("speech"),
      reply: modelOf("reply"),
      image: modelOf("image"),
    }
    const served = Object.entries(models).flatMap(([port, model]) => (model === undefined ? [] : [`${port} ${model}`]))
    yield* Effect.logInfo(`live jobs are sent to ${baseUrl ?? openAiBaseUrl}: ${served.join(", ")}`)
    if (baseUrl !== undefined && new URL(baseUrl).pathname === "/")
      yield* Effect.logWarning("KILN_OPENAI_BASE_URL has no path; most servers have their endpoints under /v1")
    return openAiProviders({ apiKey: apiKey === undefined ? undefined : Redacted.value(apiKey), baseUrl, models })
  })
