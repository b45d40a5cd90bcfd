import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { limits, type OutputFile } from "../domain/index.ts"
import { strongerWarning } from "../domain/rules.ts"
import type { Reply } from "../providers/index.ts"
import { IntegerBetween, providerVoice, Text, UploadReference, VoiceName } from "./fields.ts"
import type { AttemptContext, MeasuredAudio } from "./AttemptContext.ts"
import { JobKind } from "./JobKind.ts"
import { heardAudio, speechWarning } from "./uploadedAudio.ts"
import type { Voices } from "./Voices.ts"

const request = (voices: Voices) =>
  Schema.Struct({
    uploadId: UploadReference,
    maxOutputTokens: IntegerBetween(1, limits.outputTokens).annotate({
      description: "Maximum length of the reply, in tokens.",
    }),
    instructions: Schema.optionalKey(
      Text(limits.instructionsCharacters).annotate({
        description: "Instructions for the reply, such as its tone or length.",
      }),
    ),
    voice: Schema.optionalKey(VoiceName(voices)),
  })
type VoiceTurnRequest = ReturnType<typeof request>["Type"]

/** The result of a turn, produced in one call or in three steps. */
interface TurnMade {
  readonly text: string
  readonly audio: OutputFile
  readonly outputTokens: number
  readonly truncated: boolean
  /** `undefined` if the provider does not return a transcript. */
  readonly transcript: string | undefined
  /** Duration of the audio according to the provider. */
  readonly seconds: number | undefined
}

/**
 * Answers audio with text and speech: with one provider for all of it, or in three steps, which transcribe, reply and speak. The
 * result of each finished step is kept, so a later attempt does not pay for it again.
 */
export const VoiceTurn = (voices: Voices) =>
  JobKind({
    name: "voice_turn",
    keyScope: "audio.create",
    description: "Answers an uploaded audio file with text and speech.",
    request: request(voices),
    upload: "uploadId",
    example: { uploadId: "upl_01k9q3w5zr8x2v6m4n7p0t1c3d", maxOutputTokens: 256, instructions: "Be brief." },
    output: Schema.Struct({ text: Schema.String.annotate({ description: "The text of the reply." }) }),
    files: { audio: "The audio file." },
    price: "svc-audio",
    meters: ["input_audio_seconds", "output_tokens"],
    maxUsage: ({ maxOutputTokens }) => ({
      input_audio_seconds: limits.maxMeasuredSeconds,
      output_tokens: maxOutputTokens,
    }),
    switches: ["ai", "audio"],
    providers: ["transcription", "reply", "speech"],
    orProviders: ["voiceTurn"],
    run: Effect.fnUntraced(function* (attempt) {
      const audio = yield* attempt.audio
      const voice = providerVoice(voices, attempt.request.voice)
      const turn = yield* attempt.has("voiceTurn")
        ? turnWhole(attempt, audio, voice)
        : turnInSteps(attempt, audio, voice)
      const heard = yield* heardAudio(audio, turn.seconds)
      return {
        output: { text: turn.text },
        files: [turn.audio],
        usage: { input_audio_seconds: heard.billedSeconds, output_tokens: turn.outputTokens },
        warningCode: [
          speechWarning(turn.transcript),
          turn.truncated ? ("output_truncated" as const) : undefined,
        ].reduce(strongerWarning, heard.warningCode),
      }
    }),
  })

const turnInSteps = Effect.fnUntraced(function* (
  { ask, writeFile, request: { instructions, maxOutputTokens }, step }: AttemptContext<VoiceTurnRequest>,
  audio: MeasuredAudio,
  voice: string,
) {
  const transcript = yield* step(
    "transcribe",
    Effect.map(ask.transcription({ audio }), ({ seconds = null, text }) => ({ text, seconds })),
  )
  // Checked first: if the audio is too long, no reply is paid for.
  yield* heardAudio(audio, transcript.seconds ?? undefined)
  const reply = yield* step(
    "reply",
    Effect.map(ask.reply({ text: transcript.text, instructions, maxOutputTokens }), speakable),
  )
  const speech = yield* writeFile("audio", ask.speech({ text: reply.text, voice }))
  return {
    ...reply,
    audio: speech,
    transcript: transcript.text,
    seconds: transcript.seconds ?? undefined,
  } satisfies TurnMade
})

const turnWhole = Effect.fnUntraced(function* (
  { ask, keepFile, lastStep, request: { instructions, maxOutputTokens } }: AttemptContext<VoiceTurnRequest>,
  audio: MeasuredAudio,
  voice: string,
) {
  const turn = yield* lastStep("turn", ask.voiceTurn({ audio, instructions, maxOutputTokens, voice }))
  const { outputTokens, seconds, text, transcript, truncated } = turn
  return {
    text,
    outputTokens,
    truncated,
    transcript,
    seconds,
    audio: yield* keepFile("audio", turn.audio),
  } satisfies TurnMade
})

/** Cuts a reply to the maximum length of speech, between two words if possible. Few replies of 1,024 tokens are longer. */
const speakable = ({ outputTokens, text, truncated }: Reply) => {
  const characters = [...text]
  if (characters.length <= limits.inputCharacters) return { text, outputTokens, truncated }
  const cut = characters.slice(0, limits.inputCharacters).join("")
  return { text: cut.replace(/\s+\S*$/u, "") || cut, outputTokens, truncated: true }
}
