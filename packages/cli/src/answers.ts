import * as Effect from "effect/Effect"
import { briefCommands } from "./commands/brief.ts"
import { ProcessIo } from "./ProcessIo.ts"
import { allCommands, runKiln } from "./program.ts"
import { loadProgram } from "./runCommands.ts"

/** What the launcher of the command line knows without starting the program. */
export interface Answers {
  /** The names of commands that the program in `brief` has. */
  readonly brief: ReadonlyArray<string>
  /** Help by command, as `key create`, without and with colors; `""` is that of the program. */
  readonly help: Readonly<Record<string, readonly [plain: string, colored: string]>>
}

interface Listed {
  readonly name: string
  readonly subcommands: ReadonlyArray<{ readonly commands: ReadonlyArray<Listed> }>
}

/** The paths of a command and of those below it, without the name of the program. */
const pathsBelow = (command: Listed, path: ReadonlyArray<string> = []): ReadonlyArray<ReadonlyArray<string>> => [
  path,
  ...command.subcommands.flatMap(({ commands }) => commands.flatMap((next) => pathsBelow(next, [...path, next.name]))),
]

/** Asks for the help of each command as users would. The build writes the result for the launcher. */
export const answers = async (): Promise<Answers> => {
  const helpOf = async (path: ReadonlyArray<string>, colors: boolean): Promise<string> => {
    let text = ""
    const io = {
      environment: {},
      write: (part: string) => void (text += part),
      writeError: (part: string) => void (text += part),
      readInput: () => Promise.resolve(""),
      inputIsTerminal: false,
      colors,
    }
    const code = await Effect.runPromise(Effect.provideService(runKiln([...path, "--help"]), ProcessIo, io))
    if (code !== 0 || text === "") throw new Error(`kiln ${path.join(" ")} --help ended with ${code}:\n${text}`)
    return text
  }
  const program: Listed = await Effect.runPromise(loadProgram([], allCommands))
  const help: Record<string, readonly [string, string]> = {}
  for (const path of pathsBelow(program)) help[path.join(" ")] = [await helpOf(path, false), await helpOf(path, true)]
  return { brief: Object.keys(briefCommands), help }
}
