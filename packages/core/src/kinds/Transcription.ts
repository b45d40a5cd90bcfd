import { Effect, Schema } from "effect"
import { strongerWarning } from "../domain/index.ts"
import { Reference } from "./fields.ts"
import { JobKind } from "./JobKind.ts"
import { heardAudio, speechWarning } from "./uploadedAudio.ts"

/** An uploaded audio file in, its transcript out. */
export const Transcription = JobKind({
  name: "transcription",
  keyScope: "audio.create",
  request: Schema.Struct({ uploadId: Reference }),
  output: Schema.Struct({ transcript: Schema.String }),
  price: "svc-audio",
  meters: ["input_audio_seconds"],
  switches: ["ai", "audio"],
  providers: ["transcription"],
  uploadOf: ({ uploadId }) => uploadId,
  run: Effect.fnUntraced(function* ({ ask, audio, lastStep }) {
    const measured = yield* audio
    const transcript = yield* lastStep("transcribe", ask.transcription({ audio: measured }))
    const heard = yield* heardAudio(measured, transcript.seconds)
    return {
      output: { transcript: transcript.text },
      files: [],
      usage: { input_audio_seconds: heard.billedSeconds },
      warningCode: strongerWarning(heard.warningCode, speechWarning(transcript.text)),
    }
  }),
})
