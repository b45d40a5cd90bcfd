import {
  type EffectProvider,
  effectProvider,
  type ProviderError,
  providerRefused,
  providerUnavailable,
  type Reply,
  resultInvalid,
} from "@kiln/core/ports"
import { type FinishReason, generateText, type LanguageModel } from "ai"
import { Effect } from "effect"
import { callDefaults, callModel } from "./callModel.ts"
import { idempotencyHeaders } from "./idempotencyHeaders.ts"
import type { AiReplyModel, ModelObject } from "./Models.ts"
import { quiet } from "./quiet.ts"

/** Providers refuse an empty message, and a model should know why there is nothing to answer. */
const NO_SPEECH = "[The recording contains no speech.]"

/**
 * A language model of the AI SDK. `outputTokens` is what the provider reports and 0 where it reports none: nobody is
 * charged for a guess. With a model that reasons, the tokens of its reasoning count, and are taken from the limit.
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
  // With a text as well: it says why not, or is the beginning of what was cut off.
  if (finishReason === "content-filter") return Effect.fail(providerRefused("content", "finished by a content filter"))
  if (finishReason === "error" || finishReason === "interrupted")
    return Effect.fail(providerUnavailable(`finished by ${finishReason}`))
  if (text.trim() === "") return Effect.fail(resultInvalid(`an empty reply, finished by ${finishReason}`))
  return Effect.succeed({ text, outputTokens, truncated: finishReason === "length" })
}

const tokensOf = (reported: number | undefined): number =>
  reported !== undefined && reported > 0 && Number.isSafeInteger(Math.floor(reported)) ? Math.floor(reported) : 0
