import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { type AudioFormat, requireFlag, requireOptions } from "@kiln/core/domain"
import { effectProvider, type EffectProvider, type ProviderName } from "@kiln/core/ports"
import { drawTiles } from "./drawTiles.ts"
import { encodePng } from "./encodePng.ts"
import { makeSpeech } from "./speech.ts"
import { followSteering, ignoreSteering, type Steer } from "./Steering.ts"

/** Draws a PNG of 1024 × 1024 pixels that depends on the prompt alone. */
const makeImage = (steer: Steer) =>
  effectProvider("image", ({ prompt }, call) =>
    steer(prompt, call).pipe(
      Effect.andThen(drawTiles(prompt)),
      Effect.flatMap(encodePng),
      Effect.map((data) => ({ data, mediaType: "image/png" })),
    ),
  )

const words =
  `Thank you for trying the voice turn. This reply comes from the sandbox: it is always the same, no model has read your words, and
nothing was charged. With a live key a model answers here, in the voice you chose, within the number of tokens you allow.`.split(
    /\s+/,
  )

/** Returns a canned reply; each word counts as a token. Steered by the instructions, which the caller writes; the text is transcribed. */
const makeReply = (steer: Steer) =>
  effectProvider("reply", ({ instructions, maxOutputTokens }, call) =>
    steer(instructions, call).pipe(
      Effect.map(() => {
        const kept = words.slice(0, maxOutputTokens)
        return { text: kept.join(" "), outputTokens: kept.length, truncated: kept.length < words.length }
      }),
    ),
  )

/** Returns a fixed sentence that names the upload. Reads the audio to its end, so that a missing or damaged blob fails here as with a real provider. */
const transcription = effectProvider("transcription", ({ audio }) =>
  Stream.runDrain(audio.content).pipe(Effect.map(() => ({ text: transcriptOf(audio.format, audio.seconds) }))),
)

/** Seconds always have one decimal: `3.0`, `3.2`. */
const transcriptOf = (format: AudioFormat, seconds: number): string =>
  `Sandbox transcript of ${format.startsWith("m") ? "an" : "a"} ${format} file of ${seconds.toFixed(1)} seconds.`

/** Everything the four kinds need. A voice turn runs in its three steps. */
export type SandboxProviders = { readonly [Name in Exclude<ProviderName, "voiceTurn">]: EffectProvider<Name> }

/**
 * Providers that call no service and cost nothing. The same request always gets the same bytes, and all files are valid.
 *
 * With `steering`, the default, a text that is exactly `sandbox:fail:<error_code>`, `sandbox:delay:<seconds>` (at most 60) or
 * `sandbox:flaky:<n>` decides what happens to the request. It is the text of speech, the prompt of an image, the instructions
 * of a reply. Steering is for test keys: pass `steering: false` for live jobs.
 */
export const sandboxProviders = (options: { readonly steering?: boolean } = {}): SandboxProviders => {
  requireOptions("sandboxProviders()", options, { steering: true })
  const { steering = true } = options
  requireFlag("steering", steering)
  const steer = steering ? followSteering : ignoreSteering
  return { transcription, speech: makeSpeech(steer), reply: makeReply(steer), image: makeImage(steer) }
}
