import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Runtime from "effect/Runtime"
import { exitFailed } from "./CommandFailed.ts"
import { layerLogs, logFormatOf } from "./logs/formatLog.ts"

/** Exits after an unhandled failure, because the process can no longer be trusted. */
const exitOnStrayFailure = (cause: unknown): void => {
  const stack = cause instanceof Error ? (cause.stack ?? cause.message) : String(cause)
  process.stderr.write(`kiln: stopping after an unhandled failure: ${stack}\n`)
  process.exit(exitFailed)
}

// Commands handle signals: `serve` shuts down gracefully, the others just end.
const runMain = Runtime.makeRunMain(({ fiber }) => {
  fiber.addObserver((exit) => {
    const code = Exit.isSuccess(exit) && typeof exit.value === "number" ? exit.value : exitFailed
    // Flush the output first.
    process.stdout.write("", () => process.exit(code))
  })
})

/** Runs the command line of this process to its end. `run` returns the exit code. */
export const runProcess = (run: (args: ReadonlyArray<string>) => Effect.Effect<number>): void => {
  process.on("unhandledRejection", exitOnStrayFailure).on("uncaughtException", exitOnStrayFailure)
  // A closed output (`kiln key list | head`, a log collector that restarts) is not a reason to stop serving.
  for (const stream of [process.stdout, process.stderr]) stream.on("error", () => undefined)
  run(process.argv.slice(2)).pipe(
    Effect.provide(layerLogs(logFormatOf(process.env))),
    runMain({ disableErrorReporting: true }),
  )
}
