import type { ImageProvider } from "@kiln/core/ports"
import { Effect } from "effect"
import { drawTiles } from "./drawTiles.ts"
import { encodePng } from "./encodePng.ts"
import type { Steer } from "./Steering.ts"

/** Creates a provider of 1024 × 1024 PNGs that are determined by the prompt. */
export const makeImage = (steer: Steer): ImageProvider => ({
  generate: ({ prompt }, call) =>
    steer(prompt, call).pipe(
      Effect.andThen(drawTiles(prompt)),
      Effect.flatMap(encodePng),
      Effect.map((data) => ({ data, mediaType: "image/png" })),
    ),
})
