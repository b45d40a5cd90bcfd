import * as Result from "effect/Result"
import * as SchemaParser from "effect/SchemaParser"
import { type FieldError, type JsonObject } from "../domain/index.ts"
import { isPlainObject } from "../domain/realms.ts"
import { asJsonObject, jsonProblem } from "./asJson.ts"
import { fieldsDecoder, type FieldsSchema } from "./decodeFields.ts"
import { isStandardSchema, type StandardIssue, type StandardSchema } from "./StandardSchema.ts"
import { validated } from "./readBySchema.ts"

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
  return Result.fail(fieldErrors(result.issues, stored))
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
const fieldErrors = (issues: ReadonlyArray<StandardIssue>, input: JsonObject): ReadonlyArray<FieldError> => {
  const found = new Map<string, FieldError>()
  for (const { message, path = [] } of issues) {
    const [first = ""] = path
    const field = String(typeof first === "object" ? first.key : first)
    const reason = field === "" || Object.hasOwn(input, field) ? "type" : "required"
    if (!found.has(field)) found.set(field, { field, reason, message })
  }
  return [...found.values()]
}
