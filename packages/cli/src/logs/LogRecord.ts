import * as Cause from "effect/Cause"
import type * as Logger from "effect/Logger"
import * as References from "effect/References"
import { isError } from "@kiln/core/domain"

/** A message of the log, with its fields at the top level under names in snake case. */
export interface LogRecord {
  readonly time: string
  readonly level: string
  readonly message: string
  readonly fields: Readonly<Record<string, unknown>>
}

/** Names that a field of a message cannot take. */
const reserved = new Set(["time", "level", "message", "error"])

const snakeCase = (name: string): string =>
  name.replaceAll(/[^A-Za-z0-9_.]/g, "_").replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

const isFields = (part: unknown): part is Readonly<Record<string, unknown>> =>
  typeof part === "object" && part !== null && !Array.isArray(part) && !isError(part) && !Cause.isCause(part)

const textOf = (part: unknown): string => {
  if (typeof part === "string") return part
  if (isError(part)) return part.message
  return Array.isArray(part) ? part.map(textOf).join(", ") : String(part)
}

/** Brings the parts of a message into one record: texts become the message, objects become fields, and causes the error. */
export const toLogRecord = ({ cause, date, fiber, logLevel, message }: Logger.Options<unknown>): LogRecord => {
  const parts: ReadonlyArray<unknown> = Array.isArray(message) ? message : [message]
  const causes = [...parts.filter(Cause.isCause), cause].filter(({ reasons }) => reasons.length > 0)
  const span = fiber.cache.span
  const given = [fiber.getRef(References.CurrentLogAnnotations), ...parts.filter(isFields)]
  const fields = given
    .flatMap((one) => Object.entries(one))
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => [reserved.has(name) ? `${name}_` : snakeCase(name), value] as const)
  return {
    time: date.toISOString(),
    level: logLevel.toLowerCase(),
    message: parts
      .filter((part) => !isFields(part) && !Cause.isCause(part))
      .map(textOf)
      .join(" "),
    fields: {
      ...Object.fromEntries(fields),
      ...(span?._tag === "Span" && span.sampled && { trace_id: span.traceId.padStart(32, "0"), span_id: span.spanId }),
      ...(causes.length > 0 && { error: causes.map((one) => Cause.pretty(one)).join("\n") }),
    },
  }
}
