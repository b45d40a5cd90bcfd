import { Effect, Schema } from "effect"
import { causeMessage, codesOf, type CommandFailed, failed } from "../CommandFailed.ts"

/** Whoever read standard output does so no more. */
export class ReaderGone extends Schema.TaggedError<ReaderGone>()("ReaderGone", {}) {}

/** How a system says it, of a pipe and of a socket; the last one when it has said so before. */
const gone = new Set(["EPIPE", "ECONNRESET", "ERR_STREAM_DESTROYED"])

/** Writes to standard output, and waits until it is taken: a slow reader is not outrun. */
export const writeOut = (text: string): Effect.Effect<void, ReaderGone | CommandFailed> =>
  Effect.callback((resume) => {
    process.stdout.write(text, (error) => {
      if (error == null) return resume(Effect.void)
      const isGone = codesOf(error).some((code) => gone.has(code))
      resume(Effect.fail(isGone ? new ReaderGone() : failed(`cannot write the export: ${causeMessage(error)}`)))
    })
  })
