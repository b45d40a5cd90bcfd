import * as Cause from "effect/Cause"
import { isError } from "../domain/index.ts"
import { readSafely } from "../domain/givenValues.ts"

/** The parts of an error that a trace may contain: its name, its code, and its origin. Messages of foreign code quote prompts. */
export const publicError = (cause: Cause.Cause<unknown>): Error => {
  const error = Cause.squash(cause)
  const { code, tag } = readSafely(() => tagAndCode(error)) ?? {}
  const trace = isError(error) ? traceOfError(error) : undefined
  const name = typeof tag === "string" ? tag : (trace?.name ?? "Error")
  const shown = new Error(typeof code === "string" ? code : name)
  shown.name = name
  shown.stack = [`${name}: ${shown.message}`, ...(trace?.frames ?? [])].join("\n")
  return shown
}

const tagAndCode = (error: unknown): { readonly tag?: unknown; readonly code?: unknown } => {
  if (typeof error !== "object" || error === null) return {}
  const { _tag: tag, errorCode: code } = error as { readonly _tag?: unknown; readonly errorCode?: unknown }
  return { tag, code }
}

/**
 * Returns the name of an error and the frames of its stack, without its message, which may quote a request. Code can set both to
 * anything, for example with `Error.prepareStackTrace`: what is not text is left out.
 */
export const traceOfError = (error: Error): { readonly name: string; readonly frames: ReadonlyArray<string> } => {
  const name: unknown = readSafely(() => error.name)
  const stack: unknown = readSafely(() => error.stack)
  const message: unknown = readSafely(() => error.message)
  return {
    name: typeof name === "string" ? name : "Error",
    frames:
      typeof stack === "string"
        ? framesAfter(stack, headLength(stack, typeof message === "string" ? message : ""))
        : [],
  }
}

const framesAfter = (stack: string, head: number | undefined): ReadonlyArray<string> =>
  head === undefined
    ? []
    : stack
        .slice(head)
        .split("\n")
        .filter((line) => line.startsWith("    at "))

/**
 * Returns the length of the head of a stack: the name, and the message as it was when the error was made. A line of the message may look
 * like a frame, so the head is not found by the look of lines. `undefined` if the head cannot be told from the frames, because code has
 * changed the message.
 */
const headLength = (stack: string, message: string): number | undefined => {
  const [first = ""] = stack.split("\n", 1)
  // Without a message, the head is the name alone. The stack of a subclass may have the name of its parent.
  if (!first.includes(": ")) return message !== "" && stack.startsWith(message) ? message.length : first.length
  const from = `: ${message}`
  const at = stack.indexOf(from)
  return at >= 0 && at < first.length ? at + from.length : undefined
}
