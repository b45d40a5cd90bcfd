import { Effect } from "effect"
import { limits, strongerWarning, type Upload, type WarningCode } from "../domain/index.ts"
import { type AudioInput, MediaProbe } from "../ports/index.ts"
import { AttemptFailed, type MeasuredAudio } from "./JobKind.ts"

const failed = (errorCode: AttemptFailed["errorCode"], detail: string) =>
  new AttemptFailed({ errorCode, retry: false, detail })

/** Measures an uploaded file and refuses what does not decode, is too short or too long. Where the file carries no length, the declared one counts. */
export const measureUpload = Effect.fnUntraced(function* (upload: Upload, file: Pick<AudioInput, "bytes" | "content">) {
  const probe = yield* MediaProbe
  const measured = yield* probe
    .probe({ format: upload.format, bytes: file.bytes, content: file.content })
    .pipe(Effect.catchTag("MediaUnreadable", (error) => Effect.fail(failed("audio_unreadable", error.reason))))
  const seconds = Number.isFinite(measured.seconds) ? (measured.seconds ?? 0) : upload.declaredSeconds
  if (seconds < limits.minMeasuredSeconds) return yield* failed("audio_too_short", `${seconds} s`)
  if (seconds > limits.maxMeasuredSeconds) return yield* failed("audio_too_long", `${seconds} s`)
  const audio: MeasuredAudio = {
    format: upload.format,
    bytes: file.bytes,
    content: file.content,
    seconds,
    declaredSeconds: upload.declaredSeconds,
  }
  return audio
})

/** Audio is billed by whole seconds, rounded up. */
export const billedSeconds = (audio: MeasuredAudio): number => Math.ceil(audio.seconds)

/** A declaration that is off by more than 2 s and more than 5 % of itself is worth a warning. */
const durationMismatch = (audio: MeasuredAudio): WarningCode | undefined =>
  Math.abs(audio.seconds - audio.declaredSeconds) > Math.max(2, audio.declaredSeconds * 0.05)
    ? "duration_mismatch"
    : undefined

/** The warning an upload and its transcript give rise to. */
export const transcriptWarning = (audio: MeasuredAudio, transcript: string): WarningCode | undefined =>
  strongerWarning(durationMismatch(audio), transcript.trim() === "" ? "no_speech_detected" : undefined)
