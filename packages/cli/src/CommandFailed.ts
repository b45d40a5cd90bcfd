import * as Schema from "effect/Schema"

/** Exit codes other than 0: the command failed, or it was used incorrectly. */
export const exitFailed = 1
export const exitUsage = 2

/** A command failed. Its message is printed to standard error, after `kiln: `. */
export class CommandFailed extends Schema.TaggedError<CommandFailed>()("CommandFailed", {
  message: Schema.String,
  /** 1: the command failed. 2: it was used incorrectly. */
  exitCode: Schema.Literals([exitFailed, exitUsage]),
  /** The part of the message that says what to do, such as "set KILN_DATABASE_POOLER=transaction", if there is one. */
  advice: Schema.optionalKey(Schema.String),
}) {}

export const failed = (message: string, advice?: string): CommandFailed =>
  new CommandFailed({ message, exitCode: exitFailed, ...(advice !== undefined && { advice }) })
export const misused = (message: string): CommandFailed => new CommandFailed({ message, exitCode: exitUsage })

/** Returns the message of a cause, without its stack. */
export const causeMessage = (cause: unknown): string => {
  if (!(cause instanceof Error)) return String(cause)
  // For a host with several addresses, each has its own reason, and the aggregate has no message.
  const [first] = errorsOf(cause)
  return cause.message !== "" || first === undefined ? cause.message : causeMessage(first)
}

/** Returns the codes of an error and its causes, outermost first: `ECONNREFUSED`, `28P01`. */
export const codesOf = (cause: unknown): ReadonlyArray<string> => {
  if (!(cause instanceof Error)) return []
  const code = "code" in cause && typeof cause.code === "string" ? [cause.code] : []
  return [...code, ...[...errorsOf(cause), cause.cause].flatMap(codesOf)]
}

const errorsOf = (cause: Error): ReadonlyArray<unknown> =>
  cause instanceof AggregateError ? (cause.errors as ReadonlyArray<unknown>) : []
