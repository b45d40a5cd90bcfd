import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { causeMessage, codesOf, type CommandFailed, failed } from "../CommandFailed.ts"

/** The reader of standard output has closed it. */
export class ReaderGone extends Schema.TaggedError<ReaderGone>()("ReaderGone", {}) {}

/** Error codes of a closed pipe or socket; the last one is for writes after that. */
const gone = new Set(["EPIPE", "ECONNRESET", "ERR_STREAM_DESTROYED"])

/** Writes to standard output with backpressure: waits for a slow reader. */
export const writeOut = (text: string): Effect.Effect<void, ReaderGone | CommandFailed> =>
  Effect.callback((resume) => {
    process.stdout.write(text, (error) => {
      if (error == null) return resume(Effect.void)
      const isGone = codesOf(error).some((code) => gone.has(code))
      resume(Effect.fail(isGone ? new ReaderGone() : failed(`cannot write the export: ${causeMessage(error)}`)))
    })
  })
