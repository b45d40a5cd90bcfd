// Runs commands of kiln in this process, on a terminal that only exists here, and records what they write and when.
import * as Effect from "effect/Effect"
import { ProcessIo } from "../../src/ProcessIo.ts"
import { runKiln } from "../../src/program.ts"

/** A screen from a moment on. */
export interface Frame {
  /** Milliseconds since the start. */
  readonly at: number
  readonly lines: ReadonlyArray<string>
}

const prompt = "$ "
const typingMs = 28
const readingMs = 3_000

const clearLine = "\u001B[K"
const controls = new RegExp(`(\n|\r|${clearLine.replace("[", String.raw`\[`)})`)

/** What the programs here use of a terminal: lines, carriage returns, and clearing the rest of a line. */
class Screen {
  lines: Array<string> = [""]

  write(text: string): void {
    for (const part of text.split(controls)) {
      if (part === "\n") this.lines.push("")
      else if (part === "\r") this.#column = 0
      else if (part === clearLine) this.#edit((line) => line.slice(0, this.#column))
      else if (part !== "") {
        this.#edit((line) => line.slice(0, this.#column) + part + line.slice(this.#column + part.length))
        this.#column += part.length
      }
      if (part === "\n") this.#column = 0
    }
  }

  #column = 0

  #edit(change: (line: string) => string): void {
    this.lines.push(change(this.lines.pop() ?? ""))
  }
}

/** A line as a terminal shows it that is too narrow for it. */
const wrapped = (line: string, columns: number): ReadonlyArray<string> =>
  line.length <= columns ? [line] : [line.slice(0, columns), ...wrapped(line.slice(columns), columns)]

/** Records the commands, typed at a person's pace. The time that a command takes is its own. */
export const record = async (
  commands: ReadonlyArray<{ readonly typed: string; readonly args: ReadonlyArray<string> }>,
  columns: number,
): Promise<ReadonlyArray<Frame>> => {
  const screen = new Screen()
  const frames: Array<Frame> = []
  let at = 0
  const show = (): void => void frames.push({ at, lines: screen.lines.flatMap((line) => wrapped(line, columns)) })
  for (const { args, typed } of commands) {
    screen.write(prompt)
    show()
    for (const character of typed) {
      at += typingMs
      screen.write(character)
      show()
    }
    at += 400
    screen.write("\n")
    show()
    const [begun, startedAt] = [at, performance.now()]
    const write = (text: string): void => {
      at = begun + performance.now() - startedAt
      screen.write(text)
      show()
    }
    const io: ProcessIo = {
      environment: {},
      write,
      writeError: write,
      readInput: () => Promise.resolve(""),
      inputIsTerminal: true,
      terminal: { output: true, error: true, columns },
    }
    const exit = await Effect.runPromise(runKiln(args).pipe(Effect.provideService(ProcessIo, io)))
    if (exit !== 0) throw new Error(`${typed} ended with ${exit}: ${screen.lines.join("\n")}`)
    at += readingMs
  }
  screen.write(prompt)
  show()
  return frames
}
