import * as Cause from "effect/Cause"
import { isError, readSafely, traceOfError } from "../domain/index.ts"

/** What a trace may tell about an error: its name, its code, and where it came from. Messages of foreign code quote prompts. */
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
