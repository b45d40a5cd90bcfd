import { resultInvalid } from "./ProviderError.ts"
import { checkText, fieldOf } from "./checks.ts"
import { providerPort } from "./ProviderPort.ts"

export interface ReplyRequest {
  readonly text: string
  readonly instructions: string | undefined
  readonly maxOutputTokens: number
}

/** An answer in text. */
export interface Reply {
  readonly text: string
  /** As counted by the provider. Live voice turns are charged for them. */
  readonly outputTokens: number
  /** True if the token limit cut the reply short. */
  readonly truncated: boolean
}

/**
 * Requires a text that can be spoken, and its number of tokens. Caps the tokens at the number requested, so that callers
 * never pay for more. Throws `result_invalid`.
 */
export const checkReply = (answer: unknown, maxOutputTokens: number): Reply => {
  const text = checkText(fieldOf(answer, "text"))
  const outputTokens = fieldOf(answer, "outputTokens")
  const truncated = fieldOf(answer, "truncated")
  if (text.trim() === "") throw resultInvalid("the reply contains no words")
  if (typeof outputTokens !== "number" || !Number.isSafeInteger(outputTokens) || outputTokens < 0)
    throw resultInvalid("the reply's outputTokens must be a non-negative integer")
  if (typeof truncated !== "boolean") throw resultInvalid("the reply's truncated must be true or false")
  return { text, outputTokens: Math.min(outputTokens, maxOutputTokens), truncated }
}

/** Text to text. */
export const reply = providerPort({
  name: "reply",
  callLimitMs: 120_000,
  check: (answer, { maxOutputTokens }: ReplyRequest) => checkReply(answer, maxOutputTokens),
  example: { text: "example reply", outputTokens: 2, truncated: false },
})
