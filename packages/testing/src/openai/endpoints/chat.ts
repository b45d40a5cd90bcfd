import { belowMinimum, jsonFields, optionalCount, requiredText } from "./jsonFields.ts"
import { refuse } from "../failures.ts"
import { CREATED_AT_SECONDS, json, type Service } from "./Service.ts"
import { cutText, messagesOf } from "./text.ts"

export const chat: Service<"chat"> = {
  read: (incoming) => {
    const fields = jsonFields(incoming)
    const model = requiredText(fields, "model")
    const messages = messagesOf(fields["messages"], "messages")
    if (fields["stream"] === true) {
      throw refuse("This stand-in does not stream.", { param: "stream", code: "unsupported_value" })
    }
    const param = fields["max_completion_tokens"] == null ? "max_tokens" : "max_completion_tokens"
    const maxOutputTokens = optionalCount(fields, param)
    if (maxOutputTokens !== undefined && maxOutputTokens < 1) throw belowMinimum(param, 1, maxOutputTokens)
    return { model, messages, ...(maxOutputTokens === undefined ? {} : { maxOutputTokens }), fields }
  },

  answer: (request, value, { number }) => {
    const { finishReason, inputTokens, outputTokens, refusal, text } = cutText(request, value)
    return json({
      id: `chatcmpl-${number}`,
      object: "chat.completion",
      created: CREATED_AT_SECONDS,
      model: request.model,
      choices: [
        {
          index: 0,
          message: {
            role: "assistant",
            content: refusal === undefined ? text : null,
            refusal: refusal ?? null,
            annotations: [],
          },
          logprobs: null,
          finish_reason: finishReason,
        },
      ],
      usage: {
        prompt_tokens: inputTokens,
        completion_tokens: outputTokens,
        total_tokens: inputTokens + outputTokens,
        prompt_tokens_details: { cached_tokens: 0, audio_tokens: 0 },
        completion_tokens_details: { reasoning_tokens: 0, audio_tokens: 0 },
      },
      service_tier: "default",
      system_fingerprint: null,
    })
  },
}
