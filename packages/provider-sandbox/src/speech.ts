import { readFile } from "node:fs/promises"
import { effectProvider, ProviderFailure } from "@kiln/core/ports"
import * as Effect from "effect/Effect"
import type { Steer } from "./Steering.ts"

const FALLBACK_VOICE = "alloy"
const voices: ReadonlySet<string> = new Set([FALLBACK_VOICE, "echo", "fable", "nova", "onyx", "shimmer"])

/** Samples by voice. Callers get copies, so that none can change another's bytes. */
const samples = new Map<string, Uint8Array>()

/** Returns a spoken MP3 from this package: one for each default voice. Any other voice gets the first. */
export const makeSpeech = (steer: Steer) =>
  effectProvider(
    "speech",
    Effect.fnUntraced(function* ({ text, voice }, call) {
      yield* steer(text, call)
      const sample = yield* readSample(voices.has(voice) ? voice : FALLBACK_VOICE)
      return { data: sample.slice(), mediaType: "audio/mpeg" }
    }),
  )

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
