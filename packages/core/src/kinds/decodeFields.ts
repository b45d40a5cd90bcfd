import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import type * as SchemaIssue from "effect/SchemaIssue"
import * as SchemaParser from "effect/SchemaParser"
import "./fieldRuleAnnotation.ts"
import { fieldRules } from "./fieldRules.ts"
import type { FieldError } from "../domain/index.ts"
import { correctUnknown } from "./correctUnknown.ts"
import type { FieldRule } from "../domain/FieldError.ts"

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
    return Result.fail(fieldErrors(decoded.failure, declared))
  }
}

/** Decodes one request: see `fieldsDecoder`. */
export const decodeFields = <T>(schema: FieldsSchema<T>, input: unknown): Result.Result<T, ReadonlyArray<FieldError>> =>
  fieldsDecoder(schema)(input)

const fieldErrors = (issue: SchemaIssue.Issue, declared: ReadonlyArray<string>): ReadonlyArray<FieldError> => {
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
