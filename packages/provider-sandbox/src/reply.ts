import { effectProvider } from "@kiln/core/ports"
import * as Effect from "effect/Effect"
import type { Steer } from "./Steering.ts"

const words =
  `Thank you for trying the voice turn. This reply comes from the sandbox: it is always the same, no model has read your words, and
nothing was charged. With a live key a model answers here, in the voice you chose, within the number of tokens you allow.`.split(
    /\s+/,
  )

/** Returns a canned reply; each word counts as a token. Steered by the instructions, which the caller writes; the text is transcribed. */
export const makeReply = (steer: Steer) =>
  effectProvider("reply", ({ instructions, maxOutputTokens }, call) =>
    steer(instructions, call).pipe(
      Effect.map(() => {
        const kept = words.slice(0, maxOutputTokens)
        return { text: kept.join(" "), outputTokens: kept.length, truncated: kept.length < words.length }
      }),
    ),
  )
