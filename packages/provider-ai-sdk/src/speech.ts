import { type EffectProvider, effectProvider, resultInvalid } from "@kiln/core/providers"
import { generateSpeech, type SpeechModel } from "ai"
import * as Effect from "effect/Effect"
import { callDefaults, callModel } from "./callModel.ts"
import { idempotencyHeaders } from "./idempotencyHeaders.ts"
import type { AiSpeechModel, ModelObject } from "./Models.ts"
import { quiet } from "./quiet.ts"

export interface SpeechOptions {
  /** The vendor's name of the format; default `mp3`. Must be a container format, not raw samples. */
  readonly outputFormat?: string | undefined
  readonly providerOptions?: NonNullable<Parameters<typeof generateSpeech>[0]["providerOptions"]> | undefined
}

/** A speech model of the AI SDK. The media type of the result is what its first bytes say, or else the answer's header. */
export const speech = (model: AiSpeechModel, options: SpeechOptions = {}): EffectProvider<"speech"> =>
  effectProvider("speech", ({ text, voice }, call) =>
    callModel(
      (abortSignal) =>
        generateSpeech({
          ...callDefaults,
          model: quiet<ModelObject<SpeechModel>>(model),
          text,
          voice,
          outputFormat: options.outputFormat ?? "mp3",
          abortSignal,
          headers: idempotencyHeaders(call, "speech"),
          providerOptions: options.providerOptions ?? {},
        }),
      ({ audio, responses }) => {
        if (responses.some(({ headers }) => isText(headers))) return Effect.fail(resultInvalid("text instead of audio"))
        const mediaType = audio.mediaType === "audio/mp3" ? "audio/mpeg" : audio.mediaType
        return Effect.succeed({ data: audio.uint8Array, mediaType })
      },
    ),
  )

/** Detects the page of a proxy, or an error that was sent with status 200. */
const isText = (headers: Readonly<Record<string, string>> | undefined): boolean =>
  Object.entries(headers ?? {}).some(
    ([name, value]) => name.toLowerCase() === "content-type" && /^\s*(text\/|application\/json)/i.test(value),
  )
