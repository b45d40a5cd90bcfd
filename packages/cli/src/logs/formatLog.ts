import { styleText } from "node:util"
import type * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import { type LogFormat, logFormats } from "./LogFormat.ts"
import { type LogRecord, toLogRecord } from "./LogRecord.ts"

const bigints = (_: string, part: unknown): unknown => (typeof part === "bigint" ? String(part) : part)

/** Writes any value as JSON in one line: separators that JSON allows and some readers split at are escaped. Never fails. */
const safeJson = (value: unknown): string => {
  try {
    const json = JSON.stringify(value, bigints) ?? "null"
    return json.replaceAll("\u2028", "\\u2028").replaceAll("\u2029", "\\u2029")
  } catch {
    return '"(not printable)"'
  }
}

/** One JSON object. A value that cannot be printed is replaced alone. */
const asJson = ({ fields, ...record }: LogRecord): string =>
  `{${Object.entries({ ...record, ...fields })
    .map(([name, value]) => `${safeJson(name)}:${safeJson(value)}`)
    .join()}}`

/** A word as it is, anything else as JSON. */
const asValue = (value: unknown): string =>
  typeof value === "string" && /^[\w./:@#%+*?&,;~!$-]+$/.test(value) ? value : safeJson(value)

/** `key=value`, in one line. */
const asLogFmt = ({ fields, level, message, time }: LogRecord): string =>
  [
    `timestamp=${time}`,
    `level=${level.toUpperCase()}`,
    `message=${safeJson(message)}`,
    ...Object.entries(fields).map(([name, value]) => `${name}=${asValue(value)}`),
  ].join(" ")

const colors = { error: "red", fatal: "red", warn: "yellow", info: "green", debug: "blue", trace: "gray" } as const

const isColored = (level: string): level is keyof typeof colors => Object.hasOwn(colors, level)

/** For a terminal: time of day, level, message, and the fields in gray. Only an error has more lines. */
const asColoredLine = ({ fields: { error, ...fields }, level, message, time }: LogRecord): string => {
  const name = level.toUpperCase().padEnd(5)
  const more = Object.entries(fields).map(([field, value]) => `${field}=${asValue(value)}`)
  const shown = [
    styleText("gray", time.slice(11, 23), { validateStream: false }),
    isColored(level) ? styleText(colors[level], name, { validateStream: false }) : name,
    message.replaceAll(/\r?\n/g, "\n    "),
    ...(more.length === 0 ? [] : [styleText("gray", more.join(" "), { validateStream: false })]),
  ].join(" ")
  return typeof error === "string" ? `${shown}\n    ${error.replaceAll(/\r?\n/g, "\n    ")}` : shown
}

/** Formats a record as a line without its end. */
export const formatLog = (record: LogRecord, format: LogFormat, isTerminal: boolean): string => {
  if (format === "json") return asJson(record)
  return isTerminal ? asColoredLine(record) : asLogFmt(record)
}

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
