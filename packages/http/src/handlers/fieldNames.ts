import { type GivenNames, toCamelCase, toSnakeCase, wireName } from "@kiln/client/api"
import { type FieldError, likelyName } from "@kiln/core/domain"
import { Refusal } from "../server/Exchange.ts"

/** Marks an unknown name: `uploadId` sent by a client must not be taken for the inner name of `upload_id`. */
const UNKNOWN = "?"

/** The wire names of one kind's fields. */
export interface FieldNames {
  readonly toWire: (name: string) => string
  /** Translates the field names of a body. Unknown names are marked and stay, so that the engine refuses them. */
  readonly toRequest: (body: Readonly<Record<string, unknown>>) => Record<string, unknown>
  /** Reports the violated rule of every invalid field. The first field is `param`. */
  readonly refuse: (errors: ReadonlyArray<FieldError>) => Refusal
}

/**
 * @param fields the names of a request's fields, if its schema states them
 * @param names wire names that do not follow the rule, by inner name
 */
export const fieldNames = (fields: ReadonlyArray<string> | undefined, names: GivenNames = {}): FieldNames => {
  const toWire = remembering((name) => wireName(name, names))
  const inner = new Map([...(fields ?? []), ...Object.keys(names)].map((name) => [toWire(name), name]))
  const toInner = (name: string): string => {
    const known = inner.get(name)
    if (known !== undefined) return known
    const guess = toCamelCase(name)
    return fields === undefined && toWire(guess) === name ? guess : UNKNOWN + name
  }
  return {
    toWire,
    toRequest: (body) => Object.fromEntries(Object.entries(body).map(([name, value]) => [toInner(name), value])),
    refuse: (errors) => refuseFields(errors, toWire, [...inner.keys()]),
  }
}

/** Maximum number of remembered names: those of outputs come from programs, which may make up new ones all the time. */
const maxRemembered = 1_000

/** Remembers the wire names of outputs, which are the same in each poll. */
const remembering = (toWire: (name: string) => string): ((name: string) => string) => {
  const known = new Map<string, string>()
  return (name) => {
    const remembered = known.get(name)
    if (remembered !== undefined) return remembered
    const wire = toWire(name)
    if (known.size < maxRemembered) known.set(name, wire)
    return wire
  }
}

/** Names of unknown fields come from the client, so they are shown only up to this length. */
const maxNameLength = 64
/** Entries of `details.errors`. Known fields come first, so only unknown ones are ever left out. */
const maxErrors = 100

const shownName = (field: string, toWire: (name: string) => string): string => {
  if (!field.startsWith(UNKNOWN)) return toWire(field)
  const name = Array.from(field.slice(UNKNOWN.length, UNKNOWN.length + 2 * maxNameLength))
  const isLong = name.length > maxNameLength || field.length > UNKNOWN.length + 2 * maxNameLength
  return (isLong ? `${name.slice(0, maxNameLength).join("")}…` : name.join("")).toWellFormed()
}

const messageOf = (error: FieldError, shown: string, known: ReadonlyArray<string>): string => {
  const { field, message, reason } = error
  if (reason !== "unknown_field") return `${field === "" ? "The body" : shown} ${message}.`
  const likely = likelyName(shown, known)
  const hint = likely === undefined ? "" : `; did you mean "${likely}"?`
  const fields = known.length === 0 ? "" : `${hint === "" ? "." : ""} The fields are ${known.join(", ")}.`
  return `"${shown}" is not a field of this request${hint}${fields || "."}`
}

const toEntry = (error: FieldError, toWire: (name: string) => string, known: ReadonlyArray<string>) => {
  const { field, message: _, reason, ...bounds } = error
  const param = shownName(field, toWire)
  return {
    param,
    reason,
    message: messageOf(error, param, known),
    ...Object.fromEntries(Object.entries(bounds).map(([name, bound]) => [toSnakeCase(name), bound])),
  }
}

/** Errors whose messages are joined for people. */
const maxShown = 3

const refuseFields = (
  errors: ReadonlyArray<FieldError>,
  toWire: (name: string) => string,
  known: ReadonlyArray<string>,
): Refusal => {
  const entries = errors.slice(0, maxErrors).map((error) => toEntry(error, toWire, known))
  const first = entries[0]
  const messages = entries.slice(0, maxShown).map(({ message }) => message)
  if (errors.length > maxShown) messages.push("See details.errors for the others.")
  return new Refusal({
    code: "invalid_request",
    ...(first !== undefined && { param: first.param, message: messages.join(" ") }),
    details: { errors: entries },
  })
}
