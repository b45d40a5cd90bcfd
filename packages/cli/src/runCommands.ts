import * as Cause from "effect/Cause"
import * as CliConfig from "effect/cli/CliConfig"
import * as CliError from "effect/cli/CliError"
import * as CliOutput from "effect/cli/CliOutput"
import * as Command from "effect/cli/Command"
import * as GlobalFlag from "effect/cli/GlobalFlag"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import type { briefCommands } from "./commands/brief.ts"
import type { serveCommand } from "./commands/serve.ts"
import type { topCommand } from "./commands/top.ts"
import type { tryCommand } from "./commands/try.ts"
import type { upkeepCommands } from "./commands/upkeep.ts"
import { CommandFailed, exitFailed, exitUsage } from "./CommandFailed.ts"
import { Init } from "./openStores.ts"
import { Json } from "./Output.ts"
import { ProcessIo } from "./ProcessIo.ts"
import { version } from "./version.ts"

type KilnCommand =
  | (typeof briefCommands)[keyof typeof briefCommands]
  | (typeof upkeepCommands)[keyof typeof upkeepCommands]
  | typeof serveCommand
  | typeof topCommand
  | typeof tryCommand

/** Commands by name, which are loaded when they are needed. */
export type Commands = Readonly<Record<string, () => Promise<KilnCommand>>>

/** Loads the command that the arguments name, or all of them for an argument that is not one, and for completions. */
const loadCommands = (args: ReadonlyArray<string>, commands: Commands): Promise<ReadonlyArray<KilnCommand>> => {
  const named = args.find((arg) => !arg.startsWith("-"))
  const one = named !== undefined && Object.hasOwn(commands, named) ? commands[named] : undefined
  const isOne = one !== undefined && !args.some((arg) => arg.startsWith("--completions"))
  return Promise.all((isOne ? [one] : Object.values(commands)).map((load) => load()))
}

/** The program with the commands that the arguments can mean. */
export const loadProgram = (args: ReadonlyArray<string>, commands: Commands) =>
  Effect.map(
    Effect.promise(() => loadCommands(args, commands)),
    (loaded) =>
      Command.make("kiln").pipe(
        Command.withDescription("Asynchronous audio and image jobs: the server and its administration"),
        Command.withSubcommands(loaded),
        Command.withGlobalFlags([Json, Init]),
      ),
  )

/** No command reads files, asks questions or starts processes through these services, which take longer to load than a command. */
const noServices = Layer.succeedContext(Context.empty() as Context.Context<Command.Environment>)

const layerPlatform = Layer.mergeAll(
  noServices,
  CliConfig.layer({ builtIns: [GlobalFlag.Help, GlobalFlag.Version, GlobalFlag.Completions, GlobalFlag.LogLevel] }),
  Layer.unwrap(Effect.map(ProcessIo, (io) => CliOutput.layerPresenter(makePresenter(io)))),
)

const complain = (message: string) => Effect.map(ProcessIo, ({ writeError }) => writeError(`kiln: ${message}\n`))

/** Returns the exit code. Usage errors were already reported. */
const exitCodeOf = (exit: Exit.Exit<void, CommandFailed | CliError.CliError>): Effect.Effect<number> => {
  if (Exit.isSuccess(exit)) return Effect.succeed(0)
  const error = Cause.squash(exit.cause)
  if (error instanceof CommandFailed) return Effect.as(complain(error.message), error.exitCode)
  if (CliError.isCliError(error))
    return Effect.as(error._tag === "ShowHelp" ? Effect.void : complain(error.message), exitUsage)
  return Effect.as(
    Effect.logError("kiln stopped because of an unexpected error; please report it", exit.cause),
    exitFailed,
  )
}

/** Accepts `kiln help key` and `kiln version`, which many programs have, for `kiln key --help` and `kiln --version`. */
const inFlags = ([first, ...rest]: ReadonlyArray<string>): ReadonlyArray<string> => {
  if (first === "help") return [...rest, "--help"]
  return first === "version" && rest.length === 0 ? ["--version"] : [...(first === undefined ? [] : [first]), ...rest]
}

/** Joins a value like `-1h` to its flag. By itself, it would be read as the flags `-1` and `-h`, which prints the help and does nothing. */
const withNegativeValues = (args: ReadonlyArray<string>): ReadonlyArray<string> =>
  args.flatMap((arg, at) => {
    if (takesNegative(arg, args[at + 1])) return [`${arg}=${args[at + 1]}`]
    return takesNegative(args[at - 1], arg) ? [] : [arg]
  })

const takesNegative = (flag: string | undefined, value: string | undefined): boolean =>
  flag !== undefined && value !== undefined && /^--[a-z-]+$/.test(flag) && /^-[0-9]/.test(value)

/** Runs one command line with these commands. Returns its exit code: 0, 1 if the command failed, 2 if it was used incorrectly. */
export const runCommands = (given: ReadonlyArray<string>, commands: Commands): Effect.Effect<number> => {
  const args = withNegativeValues(inFlags(given))
  return loadProgram(args, commands).pipe(
    Effect.flatMap((kiln) => Command.runWith(kiln, { version, renderErrors: true })(args)),
    Effect.exit,
    Effect.flatMap(exitCodeOf),
    Effect.provide(layerPlatform),
  )
}

/** The launcher decides the same about the texts that it has. */
const showsColors = (): boolean => process.stdout.isTTY && process.env["NO_COLOR"] === undefined

/**
 * Writes help, versions and usage errors. The default of `effect/cli` prints the complete help to standard output after a
 * usage error, but `--json` promises a document or nothing.
 */
const makePresenter = ({ colors, write, writeError }: ProcessIo): CliOutput.Presenter => ({
  present: (event) => {
    const formatter = CliOutput.defaultFormatter({ colors: colors ?? showsColors() })
    switch (event._tag) {
      case "Help":
        return line(event.reason === "Requested" ? write : writeError, formatter.formatHelpDoc(event.helpDoc))
      case "Version":
        return line(write, `${event.name} ${event.version}`)
      case "InvalidInvocation": {
        const problems = event.errors.map((error) => `kiln: ${formatter.formatCliError(error)}`)
        const hint = `usage: ${event.helpDoc.usage}\n(see ${event.commandPath.join(" ")} --help)`
        return line(writeError, [...problems, hint].join("\n"))
      }
    }
  },
})

const line = (write: (text: string) => void, text: string) => Effect.sync(() => write(`${text}\n`))
