import type * as Schema from "effect/Schema"
import * as Result from "effect/Result"
import * as SchemaParser from "effect/SchemaParser"
import { isStandardSchema, type StandardSchema } from "./StandardSchema.ts"
import { validated } from "./validated.ts"

/** A schema of one value: any Standard Schema, or a schema of Effect. */
export type ValueSchema = StandardSchema | { readonly Type: unknown; readonly Encoded: unknown }

/** The type that a schema of a value decodes to. */
export type ValueOf<S> = S extends { readonly Type: infer Type }
  ? Type
  : S extends StandardSchema<unknown, infer Output>
    ? Output
    : never

/** Decodes a value. The problem names the first place that is wrong, and quotes no value. */
export const readBySchema = (
  schema: ValueSchema,
  value: unknown,
): { readonly value: unknown } | { readonly problem: string } => {
  if (!isStandardSchema(schema)) {
    const read = SchemaParser.decodeUnknownResult(schema as Schema.Codec<unknown, unknown>)(value)
    return Result.isSuccess(read) ? { value: read.success } : { problem: "" }
  }
  const result = validated(schema, value)
  if (result.issues === undefined) return { value: result.value }
  const [first] = result.issues[0]?.path ?? []
  return { problem: first === undefined ? "" : `: ${String(typeof first === "object" ? first.key : first)}` }
}
