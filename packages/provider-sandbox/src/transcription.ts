import type { AudioFormat } from "@kiln/core/domain"
import type { TranscriptionProvider } from "@kiln/core/ports"
import { Effect, Stream } from "effect"

/** A fixed sentence that names what was uploaded. The audio is read to its end, so that a missing or damaged blob shows here as it would with a real provider. */
export const transcription: TranscriptionProvider = {
  transcribe: ({ audio }) =>
    Stream.runDrain(audio.content).pipe(Effect.map(() => ({ text: transcriptOf(audio.format, audio.seconds) }))),
}

/** Seconds always with one decimal: `3.0`, `3.2`. */
const transcriptOf = (format: AudioFormat, seconds: number): string =>
  `Sandbox transcript of ${format.startsWith("m") ? "an" : "a"} ${format} file of ${seconds.toFixed(1)} seconds.`
