import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { limits } from "../domain/index.ts"
import { OneOf, Text } from "./fields.ts"
import { JobKind } from "./JobKind.ts"

const imageSize = `${limits.imageSize}x${limits.imageSize}` as const

/** Generates a square PNG from a prompt. */
export const ImageGeneration = JobKind({
  name: "image_generation",
  keyScope: "images.create",
  description: "Generates a square PNG of 1024 x 1024 pixels. Size, format and quality cannot be chosen.",
  request: Schema.Struct({
    prompt: Text(limits.promptCharacters).annotate({
      description: "A description of the image. Its length is counted in Unicode code points.",
    }),
    model: Schema.optionalKey(OneOf(["svc-image"])),
  }),
  example: { prompt: "A lighthouse in the fog" },
  output: Schema.Struct({ format: Schema.Literal("png"), size: Schema.Literal(imageSize) }),
  files: { image: "The image." },
  price: "svc-image",
  meters: ["images"],
  maxUsage: () => ({ images: 1 }),
  switches: ["ai", "images"],
  providers: ["image"],
  run: Effect.fnUntraced(function* ({ ask, writeFile, request }) {
    const image = yield* writeFile("image", ask.image({ prompt: request.prompt }))
    return {
      output: { format: "png" as const, size: imageSize },
      files: [image],
      usage: { images: 1 },
    }
  }),
})
