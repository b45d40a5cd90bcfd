import * as Effect from "effect/Effect"
import { limits, type Upload, type WarningCode } from "../domain/index.ts"
import { MediaProbe } from "../ports/index.ts"
import type { AudioInput } from "../providers/index.ts"
import { AttemptFailed, type MeasuredAudio } from "./AttemptContext.ts"

const failed = (errorCode: AttemptFailed["errorCode"], detail: string) =>
  new AttemptFailed({ errorCode, retry: false, detail })

/**
 * Measures an uploaded file. Fails if it does not decode, is too short or too long. The declared duration is used if the probe
 * returns none, as the default of an embedded engine does.
 */
export const measureUpload = Effect.fnUntraced(function* (upload: Upload, file: Pick<AudioInput, "bytes" | "content">) {
  const probe = yield* MediaProbe
  const measured = yield* probe
    .probe({ format: upload.format, bytes: file.bytes, project: upload.projectId, content: file.content })
    .pipe(Effect.catchTag("MediaUnreadable", (error) => Effect.fail(failed("audio_unreadable", error.reason))))
  const isMeasured = measured.seconds !== undefined && Number.isFinite(measured.seconds)
  const seconds = isMeasured ? (measured.seconds ?? 0) : upload.declaredSeconds
  if (seconds < limits.minMeasuredSeconds) return yield* failed("audio_too_short", `${seconds} s`)
  if (seconds > limits.maxMeasuredSeconds) return yield* failed("audio_too_long", `${seconds} s`)
  const audio: MeasuredAudio = {
    format: upload.format,
    bytes: file.bytes,
    content: file.content,
    seconds,
    declaredSeconds: upload.declaredSeconds,
    isMeasured,
  }
  return audio
})

/** Returns a warning if the declared length is off by more than 2 s and more than 5 % of itself. */
const durationWarning = (seconds: number, declaredSeconds: number): WarningCode | undefined =>
  Math.abs(seconds - declaredSeconds) > Math.max(2, declaredSeconds * 0.05) ? "duration_mismatch" : undefined

interface HeardAudio {
  readonly billedSeconds: number
  /** The duration to the millisecond; `undefined` if neither the file nor the provider states it. */
  readonly knownSeconds: number | undefined
  readonly warningCode: WarningCode | undefined
}

/**
 * Determines the duration of a processed file for the limit, the charge (whole seconds, rounded up) and the warning: the measured
 * one, or the longer of the declared duration and the provider's if the file was not measured.
 */
export const heardAudio = (
  audio: MeasuredAudio,
  reportedSeconds: number | undefined,
): Effect.Effect<HeardAudio, AttemptFailed> => {
  const seconds = audio.isMeasured ? audio.seconds : Math.max(audio.seconds, reportedSeconds ?? 0)
  if (seconds > limits.maxMeasuredSeconds)
    return Effect.fail(failed("audio_too_long", `the provider reports ${seconds} s`))
  const known = audio.isMeasured ? seconds : reportedSeconds
  return Effect.succeed({
    billedSeconds: Math.ceil(seconds),
    knownSeconds: known === undefined ? undefined : Math.round(known * 1_000) / 1_000,
    warningCode: durationWarning(seconds, audio.declaredSeconds),
  })
}

/** Returns a warning for a transcript without words, which is a valid result. */
export const speechWarning = (transcript: string | undefined): WarningCode | undefined =>
  transcript?.trim() === "" ? "no_speech_detected" : undefined
