import * as Context from "effect/Context"
import type { Environment } from "./settings/settingFiles.ts"

/** The parts of the process that a command uses. Tests provide their own, so that they need no process per command. */
export interface ProcessIo {
  readonly environment: Environment
  /** Writes to standard output. `written` is called once the text is written, or with the error that prevented it. */
  readonly write: (text: string, written?: (error?: Error | null) => void) => void
  /** Writes to standard error. */
  readonly writeError: (text: string) => void
  /** Reads standard input to its end. Fails with what the stream failed with. */
  readonly readInput: (maxLength?: number) => Promise<string>
  /** Whether a person types the input. */
  readonly inputIsTerminal: boolean
  /** Which outputs are a terminal, and its width; undefined if none is. */
  readonly terminal?: { readonly output: boolean; readonly error: boolean; readonly columns: number }
  /** Whether help has colors; on a terminal unless set. */
  readonly colors?: boolean
}

/** Maximum length of input in characters, unless a command asks for more: most read a secret of a few lines. */
const usualInput = 65_536

const readInput = async (maxLength: number = usualInput): Promise<string> => {
  let text = ""
  for await (const part of process.stdin.setEncoding("utf8")) {
    text += String(part)
    if (text.length > maxLength) throw new Error(`standard input has more than ${maxLength} characters`)
  }
  return text
}

export const ProcessIo = Context.Reference<ProcessIo>("@kiln/cli/ProcessIo", {
  defaultValue: () => ({
    environment: process.env,
    write: (text, written) => void process.stdout.write(text, written),
    writeError: (text) => void process.stderr.write(text),
    readInput,
    inputIsTerminal: process.stdin.isTTY,
    get terminal() {
      const { stderr, stdout } = process
      return {
        output: stdout.isTTY,
        error: stderr.isTTY,
        columns: (stderr.isTTY ? stderr.columns : stdout.columns) || 80,
      }
    },
  }),
})
