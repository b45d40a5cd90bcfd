export { aiSdkProviders, type AiSdkModels, type ProvidersOfModels } from "./aiSdkProviders.ts"
export { image, type ImageOptions } from "./image.ts"
export type { AiImageModel, AiReplyModel, AiSpeechModel, AiTranscriptionModel } from "./Models.ts"
export {
  openAiBaseUrl,
  openAiModels,
  type OpenAiModels,
  type OpenAiOptions,
  openAiProviders,
} from "./openai/openAiProviders.ts"
export { reply } from "./reply.ts"
export { speech, type SpeechOptions } from "./speech.ts"
export { toProviderError } from "./toProviderError.ts"
export { transcription } from "./transcription.ts"
