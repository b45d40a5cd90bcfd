import type * as Schema from "effect/Schema"
import * as Result from "effect/Result"
import type * as SchemaIssue from "effect/SchemaIssue"
import * as SchemaParser from "effect/SchemaParser"
import { fieldPath } from "./asJson.ts"
import { isStandardSchema, type StandardResult, type StandardSchema } from "./StandardSchema.ts"
import { KindBug } from "./KindBug.ts"

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
