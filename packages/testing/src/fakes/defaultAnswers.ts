import type { ProviderAnswers, ProviderName } from "@kiln/core/ports"
import { fakeMp3 } from "./fakeMp3.ts"
import { fakePng } from "./fakePng.ts"

/** Default answers of fakes: valid, with a different file for each port. */
export const defaultAnswers: ProviderAnswers = {
  transcription: { text: "fake transcript" },
  reply: { text: "fake reply", outputTokens: 2, truncated: false },
  speech: { data: fakeMp3("fake speech"), mediaType: "audio/mpeg" },
  image: { data: fakePng("fake image"), mediaType: "image/png" },
  voiceTurn: {
    text: "fake turn",
    outputTokens: 2,
    truncated: false,
    audio: { data: fakeMp3("fake turn"), mediaType: "audio/mpeg" },
    transcript: "fake transcript",
  },
}

/** Returns the same answers with `bytes` characters of text, or a file of at least `bytes` bytes. */
export const enlarged: { readonly [N in ProviderName]: (bytes: number) => ProviderAnswers[N] } = {
  transcription: (bytes) => ({ text: "x".repeat(bytes) }),
  reply: (bytes) => ({ ...defaultAnswers.reply, text: "x".repeat(bytes) }),
  speech: (bytes) => speech(bytes),
  image: (bytes) => ({ data: fakePng("", bytes), mediaType: "image/png" }),
  voiceTurn: (bytes) => ({ ...defaultAnswers.voiceTurn, audio: speech(bytes) }),
}

const speech = (bytes: number) => ({ data: fakeMp3("", Math.ceil(bytes / 24)), mediaType: "audio/mpeg" })
