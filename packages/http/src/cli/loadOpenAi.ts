import { Effect, Redacted } from "effect"
import type { ProviderSet } from "@kiln/core/ports"
import { causeMessage, type CommandFailed, failed } from "./CommandFailed.ts"
import type { OpenAiPlace } from "./settings/openAi.ts"

/** Who has no live jobs on OpenAI does not wait for its libraries. */
const loadProviders = Effect.tryPromise({
  try: () => import("@kiln/provider-ai-sdk"),
  catch: (cause) => failed(`cannot load the providers of KILN_PROVIDER=openai: ${causeMessage(cause)}`),
})

/** The providers behind `KILN_PROVIDER=openai`: OpenAI's own models where no others are named. Calls nobody. */
export const loadOpenAi = ({ apiKey, baseUrl, models }: OpenAiPlace): Effect.Effect<ProviderSet, CommandFailed> =>
  Effect.map(loadProviders, ({ openAiModels, openAiProviders }) => {
    const modelOf = (port: keyof typeof openAiModels): string | undefined => {
      const named = models[port]
      return named === null ? undefined : (named ?? openAiModels[port])
    }
    return openAiProviders({
      apiKey: apiKey === undefined ? undefined : Redacted.value(apiKey),
      baseUrl,
      models: {
        transcription: modelOf("transcription"),
        speech: modelOf("speech"),
        reply: modelOf("reply"),
        image: modelOf("image"),
      },
    })
  })
