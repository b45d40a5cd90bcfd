import { Effect, Schema } from "effect"
import { limits, strongerWarning, type UploadId } from "../domain/index.ts"
import { IntegerBetween, OneOf, Reference, Text } from "./fields.ts"
import { JobKind, provider } from "./JobKind.ts"
import { checkAudio, checkText } from "./results.ts"
import { billedSeconds, transcriptWarning } from "./uploadedAudio.ts"
import { providerVoice, type Voices } from "./Voices.ts"

/**
 * Audio in; text and voice out, in three steps: transcribe, reply, speak. What a finished step
 * brought is kept, so that an attempt which starts over does not buy it again.
 */
export const VoiceTurn = (voices: Voices) =>
  JobKind({
    name: "voice_turn",
    keyScope: "audio.create",
    request: Schema.Struct({
      uploadId: Reference,
      maxOutputTokens: IntegerBetween(1, limits.outputTokens),
      instructions: Schema.optionalKey(Text(limits.instructionsCharacters)),
      voice: Schema.optionalKey(OneOf(Object.keys(voices.byName))),
    }),
    price: "svc-audio",
    switches: ["ai", "audio"],
    providers: ["transcription", "reply", "speech"],
    uploadOf: (request) => request.uploadId as UploadId,
    run: Effect.fnUntraced(function* ({ audio, call, fileStep, providers, request, step }) {
      const measured = yield* audio
      const transcript = yield* step(
        "transcribe",
        Effect.flatMap(provider(providers, "transcription").transcribe({ audio: measured }, call), ({ text }) =>
          checkText(text),
        ),
      )
      const reply = yield* step(
        "reply",
        Effect.tap(
          provider(providers, "reply").reply(
            { text: transcript, instructions: request.instructions, maxOutputTokens: request.maxOutputTokens },
            call,
          ),
          ({ text }) => checkText(text),
        ),
      )
      const speech = yield* fileStep(
        "audio",
        Effect.flatMap(
          provider(providers, "speech").speak({ text: reply.text, voice: providerVoice(voices, request.voice) }, call),
          checkAudio,
        ),
      )
      return {
        output: { text: reply.text },
        files: [speech],
        usage: { input_audio_seconds: billedSeconds(measured), output_tokens: reply.outputTokens },
        warningCode: strongerWarning(
          transcriptWarning(measured, transcript),
          reply.truncated ? "output_truncated" : undefined,
        ),
      }
    }),
  })
