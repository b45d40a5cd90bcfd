import { missingParameter, refuse } from "../failures.ts"
import { belowMinimum, jsonFields, optionalCount, optionalText, requiredText } from "./jsonFields.ts"
import { CREATED_AT_SECONDS, json, type Service } from "./Service.ts"
import { cutText, messagesOf } from "./text.ts"

/** The service rejects smaller limits in this endpoint, but not in chat. */
const FEWEST_OUTPUT_TOKENS = 16

export const responses: Service<"responses"> = {
  read: (incoming) => {
    const fields = jsonFields(incoming)
    const model = requiredText(fields, "model")
    const { input } = fields
    if (input == null) throw missingParameter("input")
    if (fields["stream"] === true) {
      throw refuse("This stand-in does not stream.", { param: "stream", code: "unsupported_value" })
    }
    const instructions = optionalText(fields, "instructions")
    const maxOutputTokens = optionalCount(fields, "max_output_tokens")
    if (maxOutputTokens !== undefined && maxOutputTokens < FEWEST_OUTPUT_TOKENS) {
      throw belowMinimum("max_output_tokens", FEWEST_OUTPUT_TOKENS, maxOutputTokens)
    }
    return {
      model,
      messages: [
        ...(instructions === undefined ? [] : [{ role: "system", text: instructions }]),
        ...(typeof input === "string" ? [{ role: "user", text: input }] : messagesOf(input, "input")),
      ],
      ...(maxOutputTokens === undefined ? {} : { maxOutputTokens }),
      fields,
    }
  },

  answer: (request, value, { number }) => {
    const { finishReason, inputTokens, outputTokens, refusal, text } = cutText(request, value)
    const isWhole = finishReason === "stop"
    const reason = finishReason === "length" ? "max_output_tokens" : "content_filter"
    return json({
      id: `resp_${number}`,
      object: "response",
      created_at: CREATED_AT_SECONDS,
      status: isWhole ? "completed" : "incomplete",
      error: null,
      incomplete_details: isWhole ? null : { reason },
      instructions: request.fields["instructions"] ?? null,
      max_output_tokens: request.maxOutputTokens ?? null,
      model: request.model,
      output: [
        {
          type: "message",
          id: `msg_${number}`,
          status: isWhole ? "completed" : "incomplete",
          role: "assistant",
          content: [
            refusal === undefined
              ? { type: "output_text", text, annotations: [], logprobs: [] }
              : { type: "refusal", refusal },
          ],
        },
      ],
      parallel_tool_calls: true,
      store: false,
      tools: [],
      usage: {
        input_tokens: inputTokens,
        input_tokens_details: { cached_tokens: 0 },
        output_tokens: outputTokens,
        output_tokens_details: { reasoning_tokens: 0 },
        total_tokens: inputTokens + outputTokens,
      },
    })
  },
}
