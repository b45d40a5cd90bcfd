import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Cause from "effect/Cause"
import * as CliConfig from "effect/cli/CliConfig"
import * as CliError from "effect/cli/CliError"
import * as CliOutput from "effect/cli/CliOutput"
import * as Command from "effect/cli/Command"
import * as GlobalFlag from "effect/cli/GlobalFlag"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import { CommandFailed, exitFailed, exitUsage } from "./CommandFailed.ts"
import { adoptCommand } from "./commands/adopt.ts"
import { auditCommand } from "./commands/audit.ts"
import { backupCommand } from "./commands/backup.ts"
import { billingCommand } from "./commands/billing.ts"
import { blobsCommand } from "./commands/blobs.ts"
import { configCommand } from "./commands/config.ts"
import { copyCommand } from "./commands/copy.ts"
import { deliveryCommand } from "./commands/delivery.ts"
import { doctorCommand } from "./commands/doctor.ts"
import { jobCommand } from "./commands/job.ts"
import { keyCommand } from "./commands/key.ts"
import { migrateCommand } from "./commands/migrate.ts"
import { priceCommand } from "./commands/price.ts"
import { projectCommand } from "./commands/project.ts"
import { queueCommand } from "./commands/queue.ts"
import { restoreCommand } from "./commands/restore.ts"
import { retentionCommand } from "./commands/retention.ts"
import { scheduleCommand } from "./commands/schedule.ts"
import { serveCommand } from "./commands/serve.ts"
import { signingKeyCommand } from "./commands/signingKey.ts"
import { switchCommand } from "./commands/switch.ts"
import { tokenCommand } from "./commands/token.ts"
import { Init } from "./openStores.ts"
import { Json } from "./Output.ts"
import { ProcessIo } from "./ProcessIo.ts"
import { version } from "./version.ts"

const kiln = Command.make("kiln").pipe(
  Command.withDescription("Asynchronous audio and image jobs: the server and its administration"),
  Command.withSubcommands([
    serveCommand,
    projectCommand,
    keyCommand,
    tokenCommand,
    jobCommand,
    queueCommand,
    scheduleCommand,
    deliveryCommand,
    switchCommand,
    priceCommand,
    billingCommand,
    auditCommand,
    retentionCommand,
    blobsCommand,
    signingKeyCommand,
    configCommand,
    migrateCommand,
    doctorCommand,
    backupCommand,
    restoreCommand,
    adoptCommand,
    copyCommand,
  ]),
  Command.withGlobalFlags([Json, Init]),
)

const layerPlatform = Layer.mergeAll(
  NodeServices.layer,
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

/** Runs one command line. Returns its exit code: 0, 1 if the command failed, 2 if it was used incorrectly. */
export const runKiln = (args: ReadonlyArray<string>): Effect.Effect<number> =>
  Command.runWith(kiln, { version, renderErrors: true })(inFlags(args)).pipe(
    Effect.exit,
    Effect.flatMap(exitCodeOf),
    Effect.provide(layerPlatform),
  )

const formatter = CliOutput.defaultFormatter({ colors: process.stdout.isTTY && process.env["NO_COLOR"] === undefined })

/**
 * Writes help, versions and usage errors. The default of `effect/cli` prints the complete help to standard output after a
 * usage error, but `--json` promises a document or nothing.
 */
const makePresenter = ({ write, writeError }: ProcessIo): CliOutput.Presenter => ({
  present: (event) => {
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
