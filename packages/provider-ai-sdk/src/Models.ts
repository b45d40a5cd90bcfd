import type { ImageModel, LanguageModel, SpeechModel, TranscriptionModel } from "ai"

/** A model object. Excludes names, which would be resolved by a default gateway, and version 2, which is AI SDK 5. */
export type ModelObject<M> = Exclude<M, string | { readonly specificationVersion: "v2" }>

/**
 * The properties of a model that kiln uses. Requiring the whole type would reject many vendors' classes in programs with
 * `exactOptionalPropertyTypes`.
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
