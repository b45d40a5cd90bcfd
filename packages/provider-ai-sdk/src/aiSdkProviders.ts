import { type OptionNames, requireOptions } from "@kiln/core/domain"
import type { EffectProvider, ProviderName } from "@kiln/core/providers"
import { image } from "./image.ts"
import type { AiImageModel, AiReplyModel, AiSpeechModel, AiTranscriptionModel } from "./Models.ts"
import { reply } from "./reply.ts"
import { speech } from "./speech.ts"
import { transcription } from "./transcription.ts"

/** Models of the AI SDK, from any mix of vendors. Without a model, its port is not served. */
export interface AiSdkModels {
  readonly transcription?: AiTranscriptionModel | undefined
  readonly speech?: AiSpeechModel | undefined
  readonly reply?: AiReplyModel | undefined
  readonly image?: AiImageModel | undefined
}

/** One provider for each given model. */
export type ProvidersOfModels<Models> = {
  readonly [Name in keyof Models]: Name extends ProviderName
    ? EffectProvider<Name> | Extract<Models[Name], undefined>
    : never
}

const modelNames: OptionNames<AiSdkModels> = { transcription: true, speech: true, reply: true, image: true }

/** Creates kiln providers from models of the AI SDK, with default options. */
export const aiSdkProviders = <Models extends AiSdkModels>(
  models: Models & { readonly [Name in Exclude<keyof Models, keyof AiSdkModels>]: never },
): ProvidersOfModels<Models> => {
  requireOptions("aiSdkProviders()", models, modelNames)
  const given: AiSdkModels = models
  return {
    ...(given.transcription === undefined ? {} : { transcription: transcription(given.transcription) }),
    ...(given.speech === undefined ? {} : { speech: speech(given.speech) }),
    ...(given.reply === undefined ? {} : { reply: reply(given.reply) }),
    ...(given.image === undefined ? {} : { image: image(given.image) }),
  } as ProvidersOfModels<Models>
}
