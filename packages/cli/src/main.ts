import { readFileSync } from "node:fs"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Runtime from "effect/Runtime"
import * as CliConfig from "effect/cli/CliConfig"
import * as CliError from "effect/cli/CliError"
import * as CliOutput from "effect/cli/CliOutput"
import * as Command from "effect/cli/Command"
import * as GlobalFlag from "effect/cli/GlobalFlag"
import { CommandFailed, exitFailed, exitUsage } from "./CommandFailed.ts"
import { billingCommand } from "./commands/billing.ts"
import { blobsCommand } from "./commands/blobs.ts"
import { copyCommand } from "./commands/copy.ts"
import { doctorCommand } from "./commands/doctor.ts"
import { keyCommand } from "./commands/key.ts"
import { migrateCommand } from "./commands/migrate.ts"
import { priceCommand } from "./commands/price.ts"
import { projectCommand } from "./commands/project.ts"
import { serveCommand } from "./commands/serve.ts"
import { signingKeyCommand } from "./commands/signingKey.ts"
import { switchCommand } from "./commands/switch.ts"
import { Json } from "./Output.ts"
import { presenter } from "./Presenter.ts"

const manifest = readFileSync(new URL("../package.json", import.meta.url), "utf8")
const { version } = JSON.parse(manifest) as { readonly version: string }

const kiln = Command.make("kiln").pipe(
  Command.withDescription("Asynchronous audio and image jobs: the server and its administration"),
  Command.withSubcommands([
    serveCommand,
    projectCommand,
    keyCommand,
    switchCommand,
    priceCommand,
    billingCommand,
    blobsCommand,
    signingKeyCommand,
    migrateCommand,
    doctorCommand,
    copyCommand,
  ]),
  Command.withGlobalFlags([Json]),
)

/** Logs go to standard error, because standard output is for results, and for the key that is shown once. */
const layerLogs: Layer.Layer<never> = Layer.merge(
  Logger.layer([
    process.stderr.isTTY ? Logger.consolePretty({ colors: true }) : Logger.withConsoleError(Logger.formatLogFmt),
  ]),
  // Of the two, the pretty one asks.
  Layer.succeed(Logger.LogToStderr, true),
)

const layerPlatform = Layer.mergeAll(
  NodeServices.layer,
  layerLogs,
  CliConfig.layer({ builtIns: [GlobalFlag.Help, GlobalFlag.Version, GlobalFlag.Completions, GlobalFlag.LogLevel] }),
  CliOutput.layerPresenter(presenter),
)

const complain = (message: string) => Effect.sync(() => void process.stderr.write(`kiln: ${message}\n`))

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

/** Exits after an unhandled failure, because the process can no longer be trusted. */
const exitOnStrayFailure = (cause: unknown): void => {
  const stack = cause instanceof Error ? (cause.stack ?? cause.message) : String(cause)
  process.stderr.write(`kiln: stopping after an unhandled failure: ${stack}\n`)
  process.exit(exitFailed)
}
process.on("unhandledRejection", exitOnStrayFailure).on("uncaughtException", exitOnStrayFailure)

// A closed output (`kiln key list | head`, a log collector that restarts) is not a reason to stop serving.
for (const stream of [process.stdout, process.stderr]) stream.on("error", () => undefined)

// Commands handle signals: `serve` shuts down gracefully, the others just end.
const runMain = Runtime.makeRunMain(({ fiber }) => {
  fiber.addObserver((exit) => {
    const code = Exit.isSuccess(exit) && typeof exit.value === "number" ? exit.value : exitFailed
    // Flush the output first.
    process.stdout.write("", () => process.exit(code))
  })
})

Command.run(kiln, { version, renderErrors: true }).pipe(
  Effect.exit,
  Effect.flatMap(exitCodeOf),
  Effect.provide(layerPlatform),
  runMain({ disableErrorReporting: true }),
)
