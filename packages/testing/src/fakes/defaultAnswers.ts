import { type AnswerOf, builtInPorts, type ProviderName, type ProviderPort } from "@kiln/core/providers"
import { fakeMp3 } from "./fakeMp3.ts"
import { fakePng } from "./fakePng.ts"

/** An answer of each built-in port. */
export type DefaultAnswers = { readonly [Name in ProviderName]: AnswerOf<Name> }

/** The examples that the ports declare. */
const examples = Object.fromEntries(
  builtInPorts.map((port: ProviderPort) => [port.name, port.example]),
) as object as DefaultAnswers

/** The default answers of fakes: valid, and every file is different. */
export const defaultAnswers: DefaultAnswers = {
  ...examples,
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

/**
 * The default answers with this many characters of text, or a file of at least this many bytes. Ports not listed have no `huge`
 * answer.
 */
export const enlarged: { readonly [Name in ProviderName]?: (bytes: number) => AnswerOf<Name> } = {
  transcription: (bytes) => ({ text: "x".repeat(bytes) }),
  reply: (bytes) => ({ ...defaultAnswers.reply, text: "x".repeat(bytes) }),
  speech: (bytes) => speech(bytes),
  image: (bytes) => ({ data: fakePng("", bytes), mediaType: "image/png" }),
  voiceTurn: (bytes) => ({ ...defaultAnswers.voiceTurn, audio: speech(bytes) }),
}

const speech = (bytes: number) => ({ data: fakeMp3("", Math.ceil(bytes / 24)), mediaType: "audio/mpeg" })
