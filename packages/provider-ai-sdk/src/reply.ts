import {
  type EffectProvider,
  effectProvider,
  type ProviderError,
  providerRefused,
  providerUnavailable,
  type Reply,
  resultInvalid,
} from "@kiln/core/providers"
import { type FinishReason, generateText, type LanguageModel } from "ai"
import * as Effect from "effect/Effect"
import { callDefaults, callModel } from "./callModel.ts"
import { idempotencyHeaders } from "./idempotencyHeaders.ts"
import type { AiReplyModel, ModelObject } from "./Models.ts"
import { quiet } from "./quiet.ts"

/** Sent for silence: providers reject an empty message, and the model should know why the message is empty. */
const NO_SPEECH = "[The recording contains no speech.]"

/**
 * Creates a provider from a language model of the AI SDK. `outputTokens` is the number the provider reports, or 0 if it
 * reports none, so that guesses are never charged. Reasoning tokens count, and use up the limit.
 */
export const reply = (model: AiReplyModel): EffectProvider<"reply"> =>
  effectProvider("reply", ({ text, instructions, maxOutputTokens }, call) =>
    callModel(
      (abortSignal) =>
        generateText({
          ...callDefaults,
          model: quiet<ModelObject<LanguageModel>>(model),
          ...(instructions === undefined ? {} : { instructions }),
          prompt: text.trim() === "" ? NO_SPEECH : text,
          maxOutputTokens,
          abortSignal,
          headers: idempotencyHeaders(call, "reply"),
        }),
      ({ text: said, usage, finishReason }) => judge(said, finishReason, tokensOf(usage.outputTokens)),
    ),
  )

const judge = (text: string, finishReason: FinishReason, outputTokens: number): Effect.Effect<Reply, ProviderError> => {
  // Even with a text: it explains the refusal, or is the beginning of a truncated reply.
  if (finishReason === "content-filter") return Effect.fail(providerRefused("content", "stopped by a content filter"))
  if (finishReason === "error" || finishReason === "interrupted")
    return Effect.fail(providerUnavailable(`finish reason: ${finishReason}`))
  if (text.trim() === "") return Effect.fail(resultInvalid(`empty reply, finish reason: ${finishReason}`))
  return Effect.succeed({ text, outputTokens, truncated: finishReason === "length" })
}

const tokensOf = (reported: number | undefined): number =>
  reported !== undefined && reported > 0 && Number.isSafeInteger(Math.floor(reported)) ? Math.floor(reported) : 0
