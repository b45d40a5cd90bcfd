import { checkAudio } from "./speech.ts"
import { checkText, fieldOf, type GeneratedFile } from "./checks.ts"
import { providerPort } from "./ProviderPort.ts"
import { checkReply, type Reply } from "./reply.ts"
import { type AudioDetails, checkTranscript } from "./transcription.ts"

/** A spoken reply. */
export interface Turn extends Reply {
  readonly audio: GeneratedFile
  /** The text of the caller's audio, if the provider returns one. */
  readonly transcript?: string | undefined
  /** The length of the caller's audio, as in `Transcript`. */
  readonly seconds?: number | undefined
}

/** Requires a valid reply and audio, and a valid transcript if there is one. Throws `result_invalid`. */
export const checkTurn = (answer: unknown, maxOutputTokens: number): Turn => {
  const reply = checkReply(answer, maxOutputTokens)
  const given = fieldOf(answer, "transcript")
  const transcript = given === undefined ? undefined : checkText(given)
  const { seconds } = checkTranscript({ text: "", seconds: fieldOf(answer, "seconds") })
  return { ...reply, transcript, seconds, audio: checkAudio(fieldOf(answer, "audio")) }
}

/** A voice turn in one call: audio in, text and voice out. Preferred to the three steps if it is provided. */
export const voiceTurn = providerPort({
  name: "voiceTurn",
  callLimitMs: 600_000,
  check: (
    answer,
    {
      maxOutputTokens,
    }: {
      readonly audio: AudioDetails
      readonly instructions: string | undefined
      readonly maxOutputTokens: number
      readonly voice: string
    },
  ) => checkTurn(answer, maxOutputTokens),
})
