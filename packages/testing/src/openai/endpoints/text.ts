import type { GivenText, ReceivedMessage, TextRequest } from "../Endpoint.ts"
import { isObject } from "./jsonFields.ts"
import { refuse } from "../failures.ts"

/** A text truncated to the token limit, with its reported usage. */
export interface CutText {
  readonly text: string
  readonly refusal: string | undefined
  readonly finishReason: "stop" | "length" | "content_filter"
  readonly inputTokens: number
  readonly outputTokens: number
}

/** Returns the stand-in's reply, which depends on the question; one word is one token. */
export const replyTo = (messages: ReadonlyArray<ReceivedMessage>): string =>
  `You said: ${messages.findLast(({ role }) => role === "user")?.text ?? "nothing"}`

export const cutText = ({ maxOutputTokens, messages }: TextRequest, value: GivenText | undefined): CutText => {
  const whole = value?.text ?? replyTo(messages)
  const limit = maxOutputTokens ?? Number.POSITIVE_INFINITY
  const words = wordsOf(whole)
  const isCut = words.length > limit && value?.refusal === undefined
  return {
    // Truncated between words; a text that fits keeps its white space.
    text: isCut ? words.slice(0, limit).join(" ") : whole,
    refusal: value?.refusal,
    finishReason: value?.finishReason ?? (isCut ? "length" : "stop"),
    inputTokens: messages.reduce((sum, { text }) => sum + wordsOf(text).length, 0),
    outputTokens: value?.outputTokens ?? Math.min(wordsOf(value?.refusal ?? whole).length, limit),
  }
}

const wordsOf = (text: string): ReadonlyArray<string> => text.split(/\s+/).filter((word) => word !== "")

/** Parses messages; their content is a string or a list of parts, some of which are text. */
export const messagesOf = (list: unknown, param: string): ReadonlyArray<ReceivedMessage> => {
  if (!Array.isArray(list) || list.length === 0) {
    throw refuse(`Invalid '${param}': expected a non-empty array.`, { param, code: "empty_array" })
  }
  return list.map((message: unknown) => {
    if (!isObject(message) || typeof message["role"] !== "string") {
      throw refuse(`Invalid '${param}': every message needs a role.`, { param, code: "invalid_type" })
    }
    return { role: message["role"], text: textOf(message["content"]) }
  })
}

const textOf = (content: unknown): string => {
  if (typeof content === "string") return content
  if (!Array.isArray(content)) return ""
  return content
    .map((part: unknown) => (isObject(part) && typeof part["text"] === "string" ? part["text"] : ""))
    .join("")
}
