import type * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import { formatLog } from "./formatLog.ts"
import { type LogFormat, logFormats } from "./LogFormat.ts"
import { toLogRecord } from "./LogRecord.ts"

/** The format that the environment asks for. An invalid one is reported with the other settings. */
export const logFormatOf = ({ KILN_LOG_FORMAT: text }: Readonly<Record<string, string | undefined>>): LogFormat =>
  logFormats.find((format) => format === text?.trim()) ?? "text"

/** Writes each message as a line to standard error, because standard output is for results, and for the key that is shown once. */
export const layerLogs = (format: LogFormat): Layer.Layer<never> =>
  Logger.layer([
    Logger.make((options) => {
      process.stderr.write(`${formatLog(toLogRecord(options), format, process.stderr.isTTY)}\n`)
    }),
  ])
