import type { AudioFormat } from "../domain/AudioFormat.ts"
import { checkText, fieldOf } from "./checks.ts"
import { providerPort } from "./ProviderPort.ts"

/** An uploaded audio file, without its content. */
export interface AudioDetails {
  readonly format: AudioFormat
  readonly bytes: number
  /** Measured, or as declared if the file does not carry its length. */
  readonly seconds: number
}

/** The text of a recording. */
export interface Transcript {
  /** Empty if nobody speaks. */
  readonly text: string
  /** The length of the audio by the provider's measure. Used only for audio that kiln could not measure, if it is longer than declared. */
  readonly seconds?: number | undefined
}

/** Accepts any text that stores can keep, also an empty one. Drops seconds that are not a length. Throws `result_invalid`. */
export const checkTranscript = (answer: unknown): Transcript => {
  const text = checkText(fieldOf(answer, "text"))
  const seconds = fieldOf(answer, "seconds")
  return typeof seconds === "number" && Number.isFinite(seconds) && seconds >= 0 ? { text, seconds } : { text }
}

/** Audio to text. */
export const transcription = providerPort({
  name: "transcription",
  // A small machine may need minutes for a quarter of an hour of audio.
  callLimitMs: 600_000,
  check: (answer, _request: { readonly audio: AudioDetails }) => checkTranscript(answer),
  example: { text: "example transcript" },
})
