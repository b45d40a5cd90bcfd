import { readFile } from "node:fs/promises"
import { ProviderFailure, type SpeechProvider } from "@kiln/core/ports"
import { Effect } from "effect"
import type { Steer } from "./Steering.ts"

const FALLBACK_VOICE = "alloy"
const voices: ReadonlySet<string> = new Set([FALLBACK_VOICE, "echo", "fable", "nova", "onyx", "shimmer"])

/** Samples that were read, by voice. Never given away, only copies of them: what one caller does to its bytes no other hears. */
const samples = new Map<string, Uint8Array>()

/** A spoken MP3 that came with this package, one for each default voice; any other voice sounds like the first. */
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
          detail: `the installed package lacks assets/${voice}.mp3`,
        }),
    }).pipe(
      // Not the Buffer itself: its `slice` shares memory.
      Effect.map((buffer) => new Uint8Array(buffer)),
      Effect.tap((sample) => Effect.sync(() => samples.set(voice, sample))),
    )
  })
