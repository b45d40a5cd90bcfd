import type { ProviderSet } from "@kiln/core/ports"
import { image } from "./image.ts"
import type { AiImageModel, AiReplyModel, AiSpeechModel, AiTranscriptionModel } from "./Models.ts"
import { reply } from "./reply.ts"
import { speech } from "./speech.ts"
import { transcription } from "./transcription.ts"

/** Models of the AI SDK, of any vendor and of several at once. A missing one leaves its port unserved. */
export interface AiSdkModels {
  readonly transcription?: AiTranscriptionModel | undefined
  readonly speech?: AiSpeechModel | undefined
  readonly reply?: AiReplyModel | undefined
  readonly image?: AiImageModel | undefined
}

/** Models of the AI SDK as the providers of kiln, each with its defaults. */
export const aiSdkProviders = (models: AiSdkModels): ProviderSet => ({
  ...(models.transcription === undefined ? {} : { transcription: transcription(models.transcription) }),
  ...(models.speech === undefined ? {} : { speech: speech(models.speech) }),
  ...(models.reply === undefined ? {} : { reply: reply(models.reply) }),
  ...(models.image === undefined ? {} : { image: image(models.image) }),
})
