import * as Cause from "effect/Cause"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as References from "effect/References"
import { isError, readSafely } from "../domain/index.ts"
import { callSafely } from "../engine/callSafely.ts"
import type { LogEntry } from "./EngineOptions.ts"

const levels: Readonly<Record<string, LogEntry["level"]>> = {
  Trace: "debug",
  Debug: "debug",
  Info: "info",
  Warn: "warning",
  Error: "error",
  Fatal: "error",
}

/** Sends the log of an engine to a function, nowhere (`false`), or by default warnings and errors to standard error. */
export const layerLog = (log: false | ((entry: LogEntry) => void) | undefined): Layer.Layer<never> => {
  if (log === undefined)
    return Layer.merge(
      Layer.succeed(References.MinimumLogLevel, "Warn"),
      // Standard output belongs to the program.
      Logger.layer([Logger.withConsoleError(Logger.formatLogFmt)]),
    )
  if (log === false) return Logger.layer([])
  return Logger.layer([
    Logger.make(({ cause, date, fiber, logLevel, message }) => {
      const parts = (Array.isArray(message) ? message : [message]) as ReadonlyArray<unknown>
      const texts = parts.map((part) => readSafely(() => (isError(part) ? part.message : String(part))) ?? "")
      const why = cause.reasons.length === 0 ? [] : [readSafely(() => Cause.pretty(cause)) ?? ""]
      const fields = fiber.getRef(References.CurrentLogAnnotations)
      callSafely(
        () => log({ level: levels[logLevel] ?? "info", message: [...texts, ...why].join(" "), fields, at: date }),
        // There is nowhere left to report it.
        () => undefined,
      )
    }),
  ])
}
