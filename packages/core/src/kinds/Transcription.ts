import { Effect, Schema } from "effect"
import type { UploadId } from "../domain/index.ts"
import { Reference } from "./fields.ts"
import { JobKind, provider } from "./JobKind.ts"
import { checkText } from "./results.ts"
import { billedSeconds, transcriptWarning } from "./uploadedAudio.ts"

/** An uploaded audio file in, its transcript out. */
export const Transcription = JobKind({
  name: "transcription",
  keyScope: "audio.create",
  request: Schema.Struct({ uploadId: Reference }),
  price: "svc-audio",
  switches: ["ai", "audio"],
  providers: ["transcription"],
  uploadOf: (request) => request.uploadId as UploadId,
  run: Effect.fnUntraced(function* ({ audio, call, lastStep, providers }) {
    const measured = yield* audio
    const transcript = yield* lastStep(
      "transcribe",
      Effect.flatMap(provider(providers, "transcription").transcribe({ audio: measured }, call), ({ text }) =>
        checkText(text),
      ),
    )
    return {
      output: { transcript },
      files: [],
      usage: { input_audio_seconds: billedSeconds(measured) },
      warningCode: transcriptWarning(measured, transcript),
    }
  }),
})
