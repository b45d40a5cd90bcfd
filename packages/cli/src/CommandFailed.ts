import { Schema } from "effect"

/** Exit codes besides 0: something was asked for that could not be done, or it was asked for wrongly. */
export const exitFailed = 1
export const exitUsage = 2

/** A command cannot do what it was asked to; its message is what the person reads on standard error, after `kiln: `. */
export class CommandFailed extends Schema.TaggedError<CommandFailed>()("CommandFailed", {
  message: Schema.String,
  /** 1: it could not be done. 2: it was asked for wrongly. */
  exitCode: Schema.Literals([exitFailed, exitUsage]),
}) {}

export const failed = (message: string): CommandFailed => new CommandFailed({ message, exitCode: exitFailed })
export const misused = (message: string): CommandFailed => new CommandFailed({ message, exitCode: exitUsage })

/** What went wrong below, in words: the system's own message, without its stack. */
export const causeMessage = (cause: unknown): string => {
  if (!(cause instanceof Error)) return String(cause)
  // Of a host with several addresses, each failed for a reason of its own, and the whole has no message.
  const [first] = errorsOf(cause)
  return cause.message !== "" || first === undefined ? cause.message : causeMessage(first)
}

/** The codes of an error and of those that caused it, outermost first: `ECONNREFUSED`, `28P01`. */
export const codesOf = (cause: unknown): ReadonlyArray<string> => {
  if (!(cause instanceof Error)) return []
  const code = "code" in cause && typeof cause.code === "string" ? [cause.code] : []
  return [...code, ...[...errorsOf(cause), cause.cause].flatMap(codesOf)]
}

const errorsOf = (cause: Error): ReadonlyArray<unknown> =>
  cause instanceof AggregateError ? (cause.errors as ReadonlyArray<unknown>) : []
