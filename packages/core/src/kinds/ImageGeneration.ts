import { Effect, Schema } from "effect"
import { limits } from "../domain/index.ts"
import { OneOf, Text } from "./fields.ts"
import { JobKind, provider } from "./JobKind.ts"
import { checkPng } from "./results.ts"

/** A prompt in, a square PNG out. */
export const ImageGeneration = JobKind({
  name: "image_generation",
  keyScope: "images.create",
  request: Schema.Struct({
    prompt: Text(limits.promptCharacters),
    model: Schema.optionalKey(OneOf(["svc-image"])),
  }),
  price: "svc-image",
  switches: ["ai", "images"],
  providers: ["image"],
  run: Effect.fnUntraced(function* ({ call, fileStep, providers, request }) {
    const image = yield* fileStep(
      "image",
      Effect.flatMap(provider(providers, "image").generate({ prompt: request.prompt }, call), (file) =>
        checkPng(file, limits.imageSize),
      ),
    )
    return {
      output: { format: "png", size: `${limits.imageSize}x${limits.imageSize}` },
      files: [image],
      usage: { images: 1 },
    }
  }),
})
