import { effectProvider } from "@kiln/core/ports"
import * as Effect from "effect/Effect"
import { drawTiles } from "./drawTiles.ts"
import { encodePng } from "./encodePng.ts"
import type { Steer } from "./Steering.ts"

/** Draws a PNG of 1024 × 1024 pixels that depends on the prompt alone. */
export const makeImage = (steer: Steer) =>
  effectProvider("image", ({ prompt }, call) =>
    steer(prompt, call).pipe(
      Effect.andThen(drawTiles(prompt)),
      Effect.flatMap(encodePng),
      Effect.map((data) => ({ data, mediaType: "image/png" })),
    ),
  )
