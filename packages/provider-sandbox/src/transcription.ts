import type { AudioFormat } from "@kiln/core/domain"
import { effectProvider } from "@kiln/core/ports"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"

/** Returns a fixed sentence that names the upload. Reads the audio to its end, so that a missing or damaged blob fails here as with a real provider. */
export const transcription = effectProvider("transcription", ({ audio }) =>
  Stream.runDrain(audio.content).pipe(Effect.map(() => ({ text: transcriptOf(audio.format, audio.seconds) }))),
)

/** Seconds always have one decimal: `3.0`, `3.2`. */
const transcriptOf = (format: AudioFormat, seconds: number): string =>
  `Sandbox transcript of ${format.startsWith("m") ? "an" : "a"} ${format} file of ${seconds.toFixed(1)} seconds.`
