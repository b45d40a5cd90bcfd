import type { FieldError } from "@kiln/core/domain"
import { Refusal } from "../server/Refusal.ts"

/**
 * Fields are `snake_case` on the wire and `camelCase` inside; one is made from the other by rule, so no field has a
 * mapping of its own.
 */

/** `uploadId` → `upload_id`. */
export const toSnakeCase = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

/** Marks a name that is no field's: `uploadId` sent by a client must not pass as the inner name of `upload_id`. */
const UNKNOWN = "?"

/** A body with the names of its known fields translated. Unknown ones stay, marked, for the engine to refuse. */
export const toRequest = (
  fields: Readonly<Record<string, unknown>>,
  body: Readonly<Record<string, unknown>>,
): Record<string, unknown> => {
  const inner = new Map(Object.keys(fields).map((name) => [toSnakeCase(name), name]))
  return Object.fromEntries(Object.entries(body).map(([name, value]) => [inner.get(name) ?? UNKNOWN + name, value]))
}

/** Names of unknown fields are the client's: they are shown, but not at any length. */
const maxNameLength = 64
/** Entries of `details.errors`. Known fields come first, so only unknown ones are ever left out. */
const maxErrors = 100

const shownName = (field: string): string => {
  if (!field.startsWith(UNKNOWN)) return toSnakeCase(field)
  const name = Array.from(field.slice(UNKNOWN.length, UNKNOWN.length + 2 * maxNameLength))
  const isLong = name.length > maxNameLength || field.length > UNKNOWN.length + 2 * maxNameLength
  return (isLong ? `${name.slice(0, maxNameLength).join("")}…` : name.join("")).toWellFormed()
}

const toEntry = ({ field, message, reason, ...bounds }: FieldError) => ({
  param: shownName(field),
  reason,
  message: `${reason === "unknown_field" ? "This" : toSnakeCase(field)} ${message}.`,
  ...Object.fromEntries(Object.entries(bounds).map(([name, bound]) => [toSnakeCase(name), bound])),
})

/** Says of every offending field which rule it breaks. The first one is `param`. */
export const refuseFields = (errors: ReadonlyArray<FieldError>): Refusal => {
  const entries = errors.slice(0, maxErrors).map(toEntry)
  const first = entries[0]
  return new Refusal({
    code: "invalid_request",
    ...(first !== undefined && { param: first.param, message: first.message }),
    details: { errors: entries },
  })
}
