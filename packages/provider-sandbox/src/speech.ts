import { readFile } from "node:fs/promises"
import { ProviderFailure, type SpeechProvider } from "@kiln/core/ports"
import { Effect } from "effect"
import type { Steer } from "./Steering.ts"

const FALLBACK_VOICE = "alloy"
const voices: ReadonlySet<string> = new Set([FALLBACK_VOICE, "echo", "fable", "nova", "onyx", "shimmer"])

/** Samples by voice, once read. Only copies are returned, so that no caller can change the bytes of another. */
const samples = new Map<string, Uint8Array>()

/** Creates a provider of recorded MP3s from this package, one for each default voice; any other voice sounds like the first. */
export const makeSpeech = (steer: Steer): SpeechProvider => ({
  speak: Effect.fnUntraced(function* ({ text, voice }, call) {
    yield* steer(text, call)
    const sample = yield* readSample(voices.has(voice) ? voice : FALLBACK_VOICE)
    return { data: sample.slice(), mediaType: "audio/mpeg" }
  }),
})

const readSample = (voice: string): Effect.Effect<Uint8Array, ProviderFailure> =>
  Effect.suspend(() => {
    const known = samples.get(voice)
    if (known !== undefined) return Effect.succeed(known)
    return Effect.tryPromise({
      try: (signal) => readFile(new URL(`../assets/${voice}.mp3`, import.meta.url), { signal }),
      catch: () =>
        new ProviderFailure({
          errorCode: "internal_error",
          retry: false,
          detail: `assets/${voice}.mp3 is missing from the installed package`,
        }),
    }).pipe(
      // Not the Buffer itself: its `slice` shares memory.
      Effect.map((buffer) => new Uint8Array(buffer)),
      Effect.tap((sample) => Effect.sync(() => samples.set(voice, sample))),
    )
  })
