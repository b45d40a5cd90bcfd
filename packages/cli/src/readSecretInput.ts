import * as Effect from "effect/Effect"
import { causeMessage, type CommandFailed, failed, misused } from "./CommandFailed.ts"
import { ProcessIo } from "./ProcessIo.ts"

/**
 * Reads a secret from standard input: as an argument, it would be in the shell's history and in the list of processes. `maxLength`
 * is in characters, 65,536 by default.
 */
export const readSecretInput = (what: string, maxLength?: number): Effect.Effect<string, CommandFailed> =>
  Effect.gen(function* () {
    const io = yield* ProcessIo
    if (io.inputIsTerminal) io.writeError(`Paste the ${what}, press Enter, then Ctrl-D:\n`)
    const text = yield* Effect.tryPromise({
      try: () => io.readInput(maxLength),
      catch: (cause) => failed(`cannot read the ${what} from standard input: ${causeMessage(cause)}`),
    })
    return text.trim() === "" ? yield* misused(`standard input is empty: pass the ${what} there`) : text.trim()
  })
