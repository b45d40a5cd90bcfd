import * as Cause from "effect/Cause"
import { isError } from "../domain/index.ts"

/** What a trace may tell about an error: its name, its code, and where it came from. Messages of foreign code quote prompts. */
export const publicError = (cause: Cause.Cause<unknown>): Error => {
  const error = Cause.squash(cause)
  const { _tag: tag, errorCode: code } = (typeof error === "object" && error !== null ? error : {}) as {
    readonly _tag?: unknown
    readonly errorCode?: unknown
  }
  const name = typeof tag === "string" ? tag : isError(error) ? error.name : "Error"
  const shown = new Error(typeof code === "string" ? code : name)
  shown.name = name
  const frames = isError(error) ? (error.stack ?? "").split("\n").filter((line) => line.startsWith("    at ")) : []
  shown.stack = [`${name}: ${shown.message}`, ...frames].join("\n")
  return shown
}
