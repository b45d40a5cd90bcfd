import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import type * as SchemaIssue from "effect/SchemaIssue"
import * as SchemaParser from "effect/SchemaParser"
import { isArrayBuffer, isDate, isPlainObject, likelyName, readSafely } from "../domain/givenValues.ts"
import { canonicalJson } from "../domain/rules.ts"
import type { FieldError, JsonObject } from "../domain/index.ts"
import { KindBug } from "./KindBug.ts"
import type { FieldRule } from "../domain/FieldError.ts"
import type { StandardIssue, StandardResult, StandardSchema, ValueSchema } from "./StandardSchema.ts"

/** Returns a value as JSON text; `undefined` if JSON cannot represent it. */
export const asJson = (value: unknown): string | undefined => {
  try {
    return canonicalJson(value)
  } catch {
    return undefined
  }
}

/**
 * Returns which part of a value is not JSON, and the remedy, or `undefined` if all of it is JSON. `place` names the value:
 * `request.user.born: Date is not JSON; use text (toISOString()), in schemas too`.
 */
export const jsonProblem = (place: string, value: unknown): string | undefined => {
  if (asJson(value) !== undefined) return undefined
  const found = readSafely(() => firstProblem(value, place, new Set()))
  return found === undefined ? `${place} cannot be read` : `${found.path}: ${found.what}`
}

interface JsonProblem {
  readonly path: string
  readonly what: string
}

const firstProblem = (value: unknown, path: string, above: ReadonlySet<unknown>): JsonProblem | undefined => {
  const what = primitiveProblem(value)
  if (what !== undefined) return { path, what }
  if (typeof value !== "object" || value === null) return undefined
  if (above.has(value)) return { path, what: "the value contains itself, which JSON cannot represent; use ids" }
  const inside = new Set([...above, value])
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index++) {
      const item: unknown = value[index]
      const found =
        item === undefined
          ? { path: `${path}[${index}]`, what: "undefined is not JSON in a list; use null" }
          : firstProblem(item, `${path}[${index}]`, inside)
      if (found !== undefined) return found
    }
    return undefined
  }
  if (!isPlainObject(value)) return { path, what: instanceProblem(value) }
  for (const [name, field] of Object.entries(value)) {
    // As in JSON.stringify, a field that is undefined is absent.
    const found = field === undefined ? undefined : firstProblem(field, `${path}${fieldPath(name)}`, inside)
    if (found !== undefined) return found
  }
  return undefined
}

const remedies: { readonly [Type in string]?: string } = {
  bigint: "use text (String()), in schemas too",
  symbol: "leave it out",
  function: "use an object of plain fields",
  undefined: "use null",
}

const primitiveProblem = (value: unknown): string | undefined => {
  if (typeof value === "number")
    return Number.isFinite(value) ? undefined : `${String(value)} is not JSON; use null or text`
  const remedy = remedies[typeof value]
  return remedy && `${typeof value} is not JSON; ${remedy}`
}

// `JsonTypes.ts` says the same at compile time.
const instanceProblem = (value: object): string => {
  if (isDate(value)) return "Date is not JSON; use text (toISOString()), in schemas too"
  if (value instanceof Map) return "Map is not JSON; use an object (Object.fromEntries()), in schemas too"
  if (value instanceof Set) return "Set is not JSON; use a list (Array.from()), in schemas too"
  if (typeof (value as { readonly then?: unknown }).then === "function") return "Promise is not JSON; await it"
  if (ArrayBuffer.isView(value) || isArrayBuffer(value))
    return "bytes are not JSON; use text (base64), or a file written after the steps"
  const { name } = (Object.getPrototypeOf(value) as { readonly constructor: { readonly name: string } }).constructor
  const remedy = "toJSON" in value ? "use its toJSON()" : "use an object of plain fields, such as { ...value }"
  return `${name} is a class, and its instance is not JSON; ${remedy}`
}

/** Returns a field in a path: `.name`, or `["the name"]`. */
const fieldPath = (name: string): string =>
  /^[A-Za-z_$][\w$]{0,63}$/.test(name) ? `.${name}` : `[${JSON.stringify(name.slice(0, 64))}]`

/** A JSON copy of an object, with its canonical text. */
export interface JsonCopy {
  readonly stored: JsonObject
  readonly canonical: string
}

/** Returns a JSON copy of an object; `undefined` if it is not an object or JSON cannot represent it. */
export const asJsonObject = (value: unknown): JsonCopy | undefined => {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined
  const canonical = asJson(value)
  return canonical === undefined ? undefined : { stored: JSON.parse(canonical) as JsonObject, canonical }
}

export const isStandardSchema = (schema: object): schema is StandardSchema => "~standard" in schema

/** Decodes a value. `wrongAt` is the first place that the schema rejects, such as `output.items[0].name`. It quotes no value. */
export const readBySchema = (
  schema: ValueSchema,
  value: unknown,
  place: string,
): { readonly value: unknown } | { readonly wrongAt: string } => {
  if (!isStandardSchema(schema)) {
    const read = SchemaParser.decodeUnknownResult(schema as Schema.Codec<unknown, unknown>)(value)
    return Result.isSuccess(read) ? { value: read.success } : { wrongAt: place + pathIn(firstPath(read.failure)) }
  }
  const result = validated(schema, value)
  if (result.issues === undefined) return { value: result.value }
  const path = result.issues[0]?.path ?? []
  return { wrongAt: place + pathIn(path.map((step) => (typeof step === "object" ? step.key : step))) }
}

const pathIn = (steps: ReadonlyArray<PropertyKey>): string =>
  steps.map((step) => (typeof step === "number" ? `[${step}]` : fieldPath(String(step)))).join("")

/** The path of the first issue that has one. */
const firstPath = (issue: SchemaIssue.Issue): ReadonlyArray<PropertyKey> => {
  switch (issue._tag) {
    case "Pointer":
      return [...issue.path, ...firstPath(issue.issue)]
    case "Composite":
      return firstPath(issue.issues[0])
    case "Encoding":
    case "Filter":
      return firstPath(issue.issue)
    default:
      return []
  }
}

/** Validates a value. Throws `KindBug` if the schema returns a promise, of any realm, or no result at all. */
const validated = <Output>(schema: StandardSchema<unknown, Output>, value: unknown): StandardResult<Output> => {
  const result: unknown = schema["~standard"].validate(value)
  if (isResult<Output>(result)) return result
  // Nothing awaits the promise, so its rejection must not become an unhandled one.
  if (typeof result === "object") Promise.resolve(result).catch(() => undefined)
  throw new KindBug("a schema must return its result synchronously: { value } or { issues }")
}

const isResult = <Output>(result: unknown): result is StandardResult<Output> => {
  if (typeof result !== "object" || result === null) return false
  const { issues } = result as { readonly issues?: unknown }
  return issues === undefined ? "value" in result : Array.isArray(issues)
}

// Each check carries the rule it enforces, so that an error can name the rule that a request violates.
declare module "effect/Schema" {
  namespace Annotations {
    interface Filter {
      readonly fieldRule?: FieldRule | undefined
    }
  }
}

/** Rules that a field may violate, for decoders with Effect Schema and without. */
export const fieldRules = {
  required: { reason: "required", message: "is required" },
  unknown: { reason: "unknown_field", message: "is not a field of this request" },
  notObject: { reason: "type", message: "must be an object" },
  type: (what: string) => ({ reason: "type", message: `must be ${what}` }),
  oneOf: (names: ReadonlyArray<string>) => ({
    reason: "enum",
    allowed: names,
    message: `must be one of: ${names.join(", ")}`,
  }),
  positive: { reason: "min", exclusiveMin: 0, message: "must be greater than 0" },
  atMost: (max: number) => ({ reason: "max", max, message: `must be at most ${max}` }),
} as const satisfies Record<string, FieldRule | ((limit: never) => FieldRule)>

/** Unknown fields whose messages name the nearest known one. A request can have thousands of them. */
const maxCorrected = 20

/** Returns the errors with messages about unknown fields that name the nearest known one, or list the known ones. */
export const correctUnknown = (
  errors: ReadonlyArray<FieldError>,
  declared: ReadonlyArray<string>,
): ReadonlyArray<FieldError> => {
  let unknown = 0
  return errors.map((error) =>
    error.reason === "unknown_field" && unknown++ < maxCorrected ? corrected(error, declared) : error,
  )
}

const corrected = (error: FieldError, declared: ReadonlyArray<string>): FieldError => {
  const likely = likelyName(error.field.slice(0, 100), declared)
  const hint = likely === undefined ? ` (fields: ${declared.join(", ")})` : `; did you mean "${likely}"?`
  return { ...error, message: error.message + hint }
}

/** A struct of fields that describes a request. */
export type FieldsSchema<T> = Schema.Codec<T, unknown> & { readonly fields: Readonly<Record<string, unknown>> }

const typeNames: Record<string, string> = { String: "a string", Number: "a number", Boolean: "true or false" }

/**
 * Returns the function that decodes requests. It returns the value, or every offending field with the first rule it violates, in
 * the order in which the fields are declared, unknown ones last. A value that is not an object returns one error with an empty
 * field name.
 */
export const fieldsDecoder = <T>(
  schema: FieldsSchema<T>,
): ((input: unknown) => Result.Result<T, ReadonlyArray<FieldError>>) => {
  const decode = SchemaParser.decodeUnknownResult(schema, { errors: "all", onExcessProperty: "error" })
  const declared = Object.keys(schema.fields)
  return (input) => {
    const decoded = decode(input)
    if (Result.isSuccess(decoded)) return Result.succeed(decoded.success)
    return Result.fail(errorsOfIssue(decoded.failure, declared))
  }
}

/** Decodes one request: see `fieldsDecoder`. */
export const decodeFields = <T>(schema: FieldsSchema<T>, input: unknown): Result.Result<T, ReadonlyArray<FieldError>> =>
  fieldsDecoder(schema)(input)

const errorsOfIssue = (issue: SchemaIssue.Issue, declared: ReadonlyArray<string>): ReadonlyArray<FieldError> => {
  const found = new Map<string, FieldError>()
  collect(issue, undefined, found)
  if (found.size === 0) found.set("", { field: "", ...fieldRules.notObject })
  const rank = (error: FieldError) =>
    error.reason === "unknown_field" ? declared.length : declared.indexOf(error.field)
  const errors = [...found.values()].sort((a, b) => rank(a) - rank(b))
  return correctUnknown(errors, declared)
}

const collect = (issue: SchemaIssue.Issue, field: string | undefined, found: Map<string, FieldError>): void => {
  const note = (rule: FieldRule) => {
    if (field !== undefined && !found.has(field)) found.set(field, { field, ...rule })
  }
  switch (issue._tag) {
    case "Composite":
      for (const inner of issue.issues) collect(inner, field, found)
      return
    case "Pointer":
      return collect(issue.issue, field ?? String(issue.path[0]), found)
    case "Filter":
      return note(issue.filter.annotations?.fieldRule ?? { reason: "type", message: "is not valid" })
    case "MissingKey":
      return note(fieldRules.required)
    case "UnexpectedKey":
      return note(fieldRules.unknown)
    case "InvalidType":
      return note(fieldRules.type(typeNames[issue.ast._tag] ?? "of another type"))
    case "Encoding":
      return collect(issue.issue, field, found)
    default:
      return note({ reason: "type", message: "is not valid" })
  }
}

/** A decoded request. */
export interface ReadRequest<Request> {
  /** The value that an attempt receives. */
  readonly value: Request
  /** The stored JSON, which each attempt decodes again. */
  readonly stored: JsonObject
  /** The canonical text of `stored`. */
  readonly canonical: string
}

/** Decodes requests of a kind, or reports every invalid field. */
export interface RequestReader<Request> {
  /** The names of the fields, in order, if the schema states them. */
  readonly fields: ReadonlyArray<string> | undefined
  /** The names of fields, if they are known: `fields`, or those of a schema of Zod or Valibot, which may allow others too. */
  readonly names: ReadonlyArray<string> | undefined
  readonly read: (input: unknown) => Result.Result<ReadRequest<Request>, ReadonlyArray<FieldError>>
  /** Decodes a stored request for an attempt. */
  readonly readStored: (stored: unknown) => Result.Result<Request, unknown>
}

/** A schema for requests and outputs: a struct of Effect Schema, or any Standard Schema. */
export type RequestSchema<Request> = FieldsSchema<Request> | StandardSchema<unknown, Request>

export const requestReader = <Request>(schema: RequestSchema<Request>): RequestReader<Request> =>
  isStandardSchema(schema)
    ? {
        fields: undefined,
        names: namesIn(schema),
        read: (input) => readStandard(schema, input),
        readStored: (stored) => readStoredStandard(schema, stored),
      }
    : {
        fields: Object.keys(schema.fields),
        names: Object.keys(schema.fields),
        read: fieldsReader(schema),
        readStored: SchemaParser.decodeUnknownResult(schema, { onExcessProperty: "error" }),
      }

/** Zod calls the fields of an object `shape`, and Valibot `entries`. */
const namesIn = (schema: object): ReadonlyArray<string> | undefined => {
  const { entries, shape } = schema as { readonly entries?: unknown; readonly shape?: unknown }
  const fields = shape ?? entries
  return isPlainObject(fields) ? Object.keys(fields) : undefined
}

/** Stores the re-encoded value, which is certain to decode again. */
const fieldsReader = <Request>(schema: FieldsSchema<Request>): RequestReader<Request>["read"] => {
  const decode = fieldsDecoder(schema)
  const encode = SchemaParser.encodeSync(schema)
  return (input) =>
    Result.flatMap(decode(input), (value) => {
      const encoded: unknown = encode(value)
      const copy = asJsonObject(encoded)
      return copy === undefined
        ? Result.fail([{ field: "", reason: "type" as const, message: notJsonObject(encoded) }])
        : Result.succeed({ value, ...copy })
    })
}

/** Stores the input unchanged: only the input is certain to be JSON and to be accepted again. */
const readStandard = <Request>(
  schema: StandardSchema<unknown, Request>,
  input: unknown,
): Result.Result<ReadRequest<Request>, ReadonlyArray<FieldError>> => {
  const copy = asJsonObject(input)
  if (copy === undefined) return Result.fail([{ field: "", reason: "type", message: notJsonObject(input) }])
  const { canonical, stored } = copy
  const result = validated(schema, stored)
  if (result.issues === undefined) return Result.succeed({ value: result.value, stored, canonical })
  return Result.fail(errorsOfIssues(result.issues, stored))
}

const notJsonObject = (input: unknown): string => `must be a JSON object. ${problemOf(input)}`

const problemOf = (input: unknown): string => {
  const isObject = typeof input === "object" && input !== null && !Array.isArray(input)
  const shown = Array.isArray(input) ? "a list" : input === null ? "null" : typeof input
  return (isObject ? jsonProblem("request", input) : undefined) ?? `request: ${shown} is not an object, such as {}`
}

/** The attempt gets a copy, which it may change. A stored request is JSON already, so it is not checked for that again. */
const readStoredStandard = <Request>(
  schema: StandardSchema<unknown, Request>,
  stored: unknown,
): Result.Result<Request, unknown> => {
  const copy = JSON.parse(JSON.stringify(stored)) as unknown
  if (typeof copy !== "object" || copy === null || Array.isArray(copy)) return Result.fail("must be a JSON object")
  const result = validated(schema, copy)
  return result.issues === undefined ? Result.succeed(result.value) : Result.fail(result.issues)
}

/** Returns one error for each field, the first if there are several. */
const errorsOfIssues = (issues: ReadonlyArray<StandardIssue>, input: JsonObject): ReadonlyArray<FieldError> => {
  const found = new Map<string, FieldError>()
  for (const { message, path = [] } of issues) {
    const [first = ""] = path
    const field = String(typeof first === "object" ? first.key : first)
    const reason = field === "" || Object.hasOwn(input, field) ? "type" : "required"
    if (!found.has(field)) found.set(field, { field, reason, message })
  }
  return [...found.values()]
}
