import type { AudioFormat } from "@kiln/core/domain"
import { type AudioInput, type EffectProvider, effectProvider } from "@kiln/core/providers"
import { transcribe, type TranscriptionModel } from "ai"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { callDefaults, callModel } from "./callModel.ts"
import { idempotencyHeaders } from "./idempotencyHeaders.ts"
import type { AiTranscriptionModel, ModelObject } from "./Models.ts"
import { quiet } from "./quiet.ts"

/**
 * Creates a provider from a transcription model of the AI SDK. Sends the whole file with the media type of its format,
 * because the AI SDK guesses from the first bytes and treats unknown files as WAV, such as an MP3 with a large ID3 tag.
 */
export const transcription = (model: AiTranscriptionModel): EffectProvider<"transcription"> =>
  effectProvider("transcription", ({ audio }, call) =>
    Effect.flatMap(readAll(audio), (bytes) =>
      callModel(
        (abortSignal) =>
          transcribe({
            ...callDefaults,
            model: quiet<ModelObject<TranscriptionModel>>(model, { mediaType: mediaTypes[audio.format] }),
            audio: bytes,
            abortSignal,
            headers: idempotencyHeaders(call, "transcription"),
          }),
        ({ text, durationInSeconds }) =>
          Effect.succeed({ text, ...(isDuration(durationInSeconds) ? { seconds: durationInSeconds } : {}) }),
      ),
    ),
  )

/** Registered media types. Servers that use the file name get `audio.mp3`, `.m4a`, `.wav` or `.webm` from these. */
const mediaTypes: Readonly<Record<AudioFormat, string>> = {
  mp3: "audio/mpeg",
  mp4: "audio/mp4",
  m4a: "audio/mp4",
  wav: "audio/wav",
  webm: "audio/webm",
}

const isDuration = (seconds: number | undefined): seconds is number =>
  seconds !== undefined && Number.isFinite(seconds) && seconds > 0

const readAll = (audio: AudioInput) =>
  Effect.map(Stream.runCollect(audio.content), (chunks) => {
    const bytes = new Uint8Array(chunks.reduce((sum, chunk) => sum + chunk.byteLength, 0))
    let at = 0
    for (const chunk of chunks) {
      bytes.set(chunk, at)
      at += chunk.byteLength
    }
    return bytes
  })
