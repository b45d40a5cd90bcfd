import { Effect, Schema } from "effect"
import { OneOf, Text } from "./fields.ts"
import { JobKind, provider } from "./JobKind.ts"
import { checkPng } from "./results.ts"

/** Characters (Unicode code points) of prompt. */
export const maxPromptLength = 4_000
/** Pixels, width and height. */
export const imageSize = 1_024

/** A prompt in, a square PNG out. */
export const ImageGeneration = JobKind({
  name: "image_generation",
  keyScope: "images.create",
  request: Schema.Struct({
    prompt: Text(maxPromptLength),
    model: Schema.optionalKey(OneOf(["svc-image"])),
  }),
  price: "svc-image",
  switches: ["ai", "images"],
  providers: ["image"],
  run: Effect.fnUntraced(function* ({ call, fileStep, providers, request }) {
    const image = yield* fileStep(
      "image",
      Effect.flatMap(provider(providers, "image").generate({ prompt: request.prompt }, call), (file) =>
        checkPng(file, imageSize),
      ),
    )
    return {
      output: { format: "png", size: `${imageSize}x${imageSize}` },
      files: [image],
      usage: { images: 1 },
    }
  }),
})
