import { type EffectProvider, effectProvider } from "@kiln/core/providers"
import { generateImage, type ImageModel } from "ai"
import * as Effect from "effect/Effect"
import { callDefaults, callModel } from "./callModel.ts"
import { idempotencyHeaders } from "./idempotencyHeaders.ts"
import type { AiImageModel, ModelObject } from "./Models.ts"
import { quiet } from "./quiet.ts"

export interface ImageOptions {
  /** For vendors that need options to return a PNG, or a lower quality. */
  readonly providerOptions?: NonNullable<Parameters<typeof generateImage>[0]["providerOptions"]> | undefined
}

/** An image model of the AI SDK, asked for one image of 1024 by 1024 pixels. */
export const image = (model: AiImageModel, options: ImageOptions = {}): EffectProvider<"image"> =>
  effectProvider("image", ({ prompt }, call) =>
    callModel(
      (abortSignal) =>
        generateImage({
          maxRetries: callDefaults.maxRetries,
          model: quiet<ModelObject<ImageModel>>(model),
          prompt,
          n: 1,
          size: "1024x1024",
          abortSignal,
          headers: idempotencyHeaders(call, "image"),
          providerOptions: options.providerOptions ?? defaultOptions(model),
        }),
      ({ image: made }) => Effect.succeed({ data: made.uint8Array, mediaType: made.mediaType }),
    ),
  )

/**
 * Returns the options that make OpenAI's image models return a PNG at the lowest price. Only for those models: older ones
 * reject the options, and compatible servers reliably support only the size.
 */
const defaultOptions = (model: AiImageModel): NonNullable<ImageOptions["providerOptions"]> =>
  /^(gpt|chatgpt)-image-/.test(model.modelId) ? { openai: { quality: "low", outputFormat: "png" } } : {}
