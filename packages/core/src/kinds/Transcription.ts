import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { limits } from "../domain/index.ts"
import { strongerWarning } from "../domain/rules.ts"
import { UploadReference } from "./fields.ts"
import { JobKind } from "./JobKind.ts"
import { heardAudio, speechWarning } from "./uploadedAudio.ts"

/** Transcribes an uploaded audio file. */
export const Transcription = JobKind({
  name: "transcription",
  keyScope: "audio.create",
  description: "Transcribes an uploaded audio file.",
  request: Schema.Struct({ uploadId: UploadReference }),
  upload: "uploadId",
  example: { uploadId: "upl_01k9q3w5zr8x2v6m4n7p0t1c3d" },
  output: Schema.Struct({ transcript: Schema.String.annotate({ description: "The transcript of the audio." }) }),
  price: "svc-audio",
  meters: ["input_audio_seconds"],
  maxUsage: () => ({ input_audio_seconds: limits.maxMeasuredSeconds }),
  switches: ["ai", "audio"],
  providers: ["transcription"],
  run: Effect.fnUntraced(function* ({ ask, audio, lastStep }) {
    const measured = yield* audio
    const transcript = yield* lastStep("transcribe", ask.transcription({ audio: measured }))
    const heard = yield* heardAudio(measured, transcript.seconds)
    // Beside what the output declares: only clients of OpenAI's API are served the duration.
    const seconds = heard.knownSeconds === undefined ? {} : { seconds: heard.knownSeconds }
    return {
      output: { transcript: transcript.text, ...seconds },
      files: [],
      usage: { input_audio_seconds: heard.billedSeconds },
      warningCode: strongerWarning(heard.warningCode, speechWarning(transcript.text)),
    }
  }),
})
