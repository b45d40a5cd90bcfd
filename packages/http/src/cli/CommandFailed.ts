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
export const causeMessage = (cause: unknown): string => (cause instanceof Error ? cause.message : String(cause))
