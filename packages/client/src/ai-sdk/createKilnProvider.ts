import type { ImageModelV4, ProviderV4, SpeechModelV4, TranscriptionModelV4 } from "@ai-sdk/provider"
import type { WholeCalls } from "../Client.ts"
import type { ClientOptions } from "../ClientOptions.ts"
import { createClient } from "../createClient.ts"
import { imageModel, speechModel, transcriptionModel } from "./models.ts"

/** Models of a kiln service for the AI SDK. Each call is a durable job. */
export interface KilnProvider extends ProviderV4 {
  readonly speech: (modelId?: string) => SpeechModelV4
  readonly transcription: (modelId?: string) => TranscriptionModelV4
  readonly image: (modelId?: string) => ImageModelV4
  readonly speechModel: (modelId?: string) => SpeechModelV4
  readonly transcriptionModel: (modelId?: string) => TranscriptionModelV4
  readonly imageModel: (modelId?: string) => ImageModelV4
}

/**
 * Creates a provider for `generateSpeech`, `transcribe` and `generateImage` of the AI SDK. The service chooses the models behind its
 * kinds, so there is one of each: `speech`, `transcription` and `svc-image`.
 */
export const createKilnProvider = (options: ClientOptions): KilnProvider => {
  const client: WholeCalls = createClient(options)
  const only =
    <Model>(known: string, make: (client: WholeCalls, modelId: string) => Model) =>
    (modelId = known): Model => {
      if (modelId !== known) throw new TypeError(`kiln has no model "${modelId}"; this one is "${known}"`)
      return make(client, modelId)
    }
  const none = (what: string) => (): never => {
    throw new TypeError(`kiln has no ${what} models; it has speech, transcription and image models`)
  }
  const speech = only("speech", speechModel)
  const transcription = only("transcription", transcriptionModel)
  const image = only("svc-image", imageModel)
  return {
    specificationVersion: "v4",
    speech,
    transcription,
    image,
    speechModel: speech,
    transcriptionModel: transcription,
    imageModel: image,
    languageModel: none("language"),
    embeddingModel: none("embedding"),
  }
}
