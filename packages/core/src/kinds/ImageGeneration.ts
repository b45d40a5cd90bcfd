import { Effect, Schema } from "effect"
import { limits } from "../domain/index.ts"
import { OneOf, Text } from "./fields.ts"
import { JobKind } from "./JobKind.ts"

/** A prompt in, a square PNG out. */
export const ImageGeneration = JobKind({
  name: "image_generation",
  keyScope: "images.create",
  request: Schema.Struct({
    prompt: Text(limits.promptCharacters),
    model: Schema.optionalKey(OneOf(["svc-image"])),
  }),
  output: Schema.Struct({ format: Schema.Literal("png"), size: Schema.String }),
  files: ["image"],
  price: "svc-image",
  meters: ["images"],
  switches: ["ai", "images"],
  providers: ["image"],
  run: Effect.fnUntraced(function* ({ ask, fileStep, request }) {
    const image = yield* fileStep("image", ask.image({ prompt: request.prompt }))
    return {
      output: { format: "png" as const, size: `${limits.imageSize}x${limits.imageSize}` },
      files: [image],
      usage: { images: 1 },
    }
  }),
})
