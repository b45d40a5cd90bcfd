import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import type * as SchemaIssue from "effect/SchemaIssue"
import * as SchemaParser from "effect/SchemaParser"
import { isArrayBuffer, isDate, isPlainObject, readSafely } from "../domain/givenValues.ts"
import { canonicalJson, type JsonObject } from "../domain/index.ts"
import { KindBug } from "./KindBug.ts"

/** A schema of any library that implements Standard Schema, version 1 (https://standardschema.dev). */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly "~standard": {
    readonly version: 1
    readonly vendor: string
    readonly validate: (value: unknown) => StandardResult<Output> | Promise<StandardResult<Output>>
    readonly types?: { readonly input: Input; readonly output: Output } | undefined
  }
}

export type StandardResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: ReadonlyArray<StandardIssue> }

export interface StandardIssue {
  readonly message: string
  readonly path?: ReadonlyArray<PropertyKey | { readonly key: PropertyKey }> | undefined
}

export const isStandardSchema = (schema: object): schema is StandardSchema => "~standard" in schema

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

/** A schema of one value: any Standard Schema, or a schema of Effect. */
export type ValueSchema = StandardSchema | { readonly Type: unknown; readonly Encoded: unknown }

/** The type that a schema of a value decodes to. */
export type ValueOf<S> = S extends { readonly Type: infer Type }
  ? Type
  : S extends StandardSchema<unknown, infer Output>
    ? Output
    : never

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
export const validated = <Output>(schema: StandardSchema<unknown, Output>, value: unknown): StandardResult<Output> => {
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
