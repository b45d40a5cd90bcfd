import type { ImageModel, LanguageModel, SpeechModel, TranscriptionModel } from "ai"

/** A model object. Names alone would be looked up at a gateway nobody has chosen, and version 2 is that of AI SDK 5. */
export type ModelObject<M> = Exclude<M, string | { readonly specificationVersion: "v2" }>

/**
 * What is used of one. Asked for as a whole, many vendors' classes would not do in a program that tells a property that is
 * missing from one that is undefined.
 */
export type UsedPart<M> = M extends unknown ? Pick<M, Extract<keyof M, UsedProperty>> : never
type UsedProperty =
  | "specificationVersion"
  | "provider"
  | "modelId"
  | "doGenerate"
  | "supportedUrls"
  | "maxImagesPerCall"

export type AiTranscriptionModel = UsedPart<ModelObject<TranscriptionModel>>
export type AiSpeechModel = UsedPart<ModelObject<SpeechModel>>
export type AiReplyModel = UsedPart<ModelObject<LanguageModel>>
export type AiImageModel = UsedPart<ModelObject<ImageModel>>
