import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type { FieldError, JsonObject } from "../domain/index.ts"
import { asJsonObject } from "./asJson.ts"
import { decodeFields, type FieldsSchema } from "./decodeFields.ts"
import { isStandardSchema, type StandardIssue, type StandardSchema } from "./StandardSchema.ts"
import { validated } from "./validated.ts"

/** A request that was read. */
export interface ReadRequest<Request> {
  /** What an attempt works with. */
  readonly value: Request
  /** What is stored, and read again by each attempt: JSON. */
  readonly stored: JsonObject
}

/** How requests of a kind are read: what they become, or every field that is wrong. */
export interface RequestReader<Request> {
  /** The names of the fields, in order, where the schema tells them. */
  readonly fields: ReadonlyArray<string> | undefined
  readonly read: (input: unknown) => Result.Result<ReadRequest<Request>, ReadonlyArray<FieldError>>
}

/** What requests, and outputs, can be described with: fields of an Effect Schema, or any Standard Schema. */
export type RequestSchema<Request> = FieldsSchema<Request> | StandardSchema<unknown, Request>

export const requestReader = <Request>(schema: RequestSchema<Request>): RequestReader<Request> =>
  isStandardSchema(schema)
    ? { fields: undefined, read: (input) => readStandard(schema, input) }
    : { fields: Object.keys(schema.fields), read: (input) => readFields(schema, input) }

/** What was decoded is encoded again, so that what is stored is what another decoding takes. */
const readFields = <Request>(schema: FieldsSchema<Request>, input: unknown) =>
  Result.map(decodeFields(schema, input), (value) => {
    const stored = asJsonObject(Schema.encodeSync(schema)(value))
    if (stored === undefined) throw new TypeError("the schema of a request must encode to JSON")
    return { value, stored }
  })

/** What came in is stored as it came: only that is sure to be JSON, and to be taken once more. */
const readStandard = <Request>(
  schema: StandardSchema<unknown, Request>,
  input: unknown,
): Result.Result<ReadRequest<Request>, ReadonlyArray<FieldError>> => {
  const stored = asJsonObject(input)
  if (stored === undefined)
    return Result.fail([{ field: "", reason: "type", message: "must be an object that JSON can carry" }])
  const result = validated(schema, stored)
  if (result.issues === undefined) return Result.succeed({ value: result.value, stored })
  return Result.fail(fieldErrors(result.issues, stored))
}

/** One for each field, the first of several. */
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
