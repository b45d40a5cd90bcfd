import * as Schema from "effect/Schema"
import * as HttpApiSchema from "effect/http-api/HttpApiSchema"
import { errorCatalogue, type RefusalCode, refusalCodes } from "./ErrorCatalogue.ts"

/** The problem with one field, and the limit that it violates. */
const FieldProblem = Schema.Struct({
  param: Schema.String.annotate({ description: "The name of the field in the request." }),
  reason: Schema.Literals([
    "required",
    "type",
    "enum",
    "min",
    "max",
    "max_length",
    "empty",
    "characters",
    "unknown_field",
  ]),
  message: Schema.String,
  min: Schema.optionalKey(Schema.Finite),
  exclusive_min: Schema.optionalKey(Schema.Finite),
  max: Schema.optionalKey(Schema.Finite),
  max_length: Schema.optionalKey(Schema.Int),
  allowed: Schema.optionalKey(Schema.Array(Schema.String)),
}).annotate({ identifier: "FieldProblem" })

/** The `details` of the codes that have any. */
const details = {
  invalid_request: Schema.Struct({ errors: Schema.Array(FieldProblem) }),
  insufficient_scope: Schema.Struct({ required_scope: Schema.String }),
  live_not_active: Schema.Struct({
    missing: Schema.Array(
      Schema.String.annotate({ examples: ["price:svc-audio", "switch:ai", "provider:transcription"] }),
    ),
  }),
  spend_cap_reached: Schema.Struct({
    cap: Schema.Literals(["key", "project"]).annotate({ description: "Whose cap it is." }),
    reason: Schema.Literals(["cap", "unbounded", "currency"]).annotate({
      description:
        "`cap`: the job could pass the cap; `unbounded`: nothing states what such a job costs at most; `currency`: the job's price and the cap have different currencies.",
    }),
    period: Schema.NullOr(Schema.Literals(["day", "month"])).annotate({
      description: "The calendar period, in UTC, whose cap the job could pass; `null` for the other reasons.",
    }),
    currency: Schema.String.annotate({ description: "The currency of the job's price." }),
    maximum_cost: Schema.NullOr(Schema.String).annotate({
      description: "What the job could cost at most, as a decimal; `null` if it is not bounded.",
    }),
    resets_at: Schema.NullOr(Schema.String).annotate({
      description: "When the period ends; `null` if waiting does not help.",
    }),
  }),
  uploads_full: Schema.Struct({
    uploads: Schema.Int.annotate({ description: "Maximum number of uploads that wait for a job; 0 means no limit." }),
    bytes: Schema.Int.annotate({
      description: "Maximum total size, in bytes, of uploads that wait for a job; 0 means no limit.",
    }),
  }),
  storage_full: Schema.Struct({
    max_bytes: Schema.Int.annotate({ description: "Maximum total size, in bytes, of all that the project keeps." }),
    upload_bytes: Schema.Int.annotate({
      description: "Size of its uploads. Deleting the data of a job also deletes the upload it used.",
    }),
    result_bytes: Schema.Int.annotate({ description: "Size of the files that its finished jobs generated." }),
  }),
  file_too_large: Schema.Struct({ max_bytes: Schema.Int }),
  unsupported_content_type: Schema.Struct({ expected: Schema.Array(Schema.String) }),
  audio_format_mismatch: Schema.Struct({ declared: Schema.String, detected: Schema.NullOr(Schema.String) }),
} satisfies Partial<Record<RefusalCode, Schema.Top>>

type DetailsOf<Code extends RefusalCode> = Code extends keyof typeof details
  ? (typeof details)[Code]
  : typeof Schema.Null
const detailsOf = <Code extends RefusalCode>(code: Code) =>
  ((details as Partial<Record<RefusalCode, Schema.Top>>)[code] ?? Schema.Null) as DetailsOf<Code>

const pascalCase = (code: string): string =>
  code.replace(/(?:^|_)([a-z])/g, (_, letter: string) => letter.toUpperCase())

/** The error body of one code. Types are by code, so checking `error.code` narrows the type of `error.details`. */
const errorBody = <const Code extends RefusalCode>(code: Code) => {
  const { message, status, type } = errorCatalogue[code]
  const example = {
    error: { type, code, message, param: null, details: null, request_id: "req_01k9q3w5zr8x2v6m4n7p0t1c3d" },
  }
  return Schema.Struct({
    error: Schema.Struct({
      type: Schema.Literal(type),
      code: Schema.Literal(code),
      message: Schema.String.annotate({ description: "An explanation for people. The wording may change." }),
      param: Schema.NullOr(Schema.String).annotate({
        description: "The first offending field; `null` if no field is invalid.",
      }),
      details: detailsOf(code),
      request_id: Schema.String.annotate({ description: "The value of X-Request-Id." }),
    }),
  })
    .annotate({
      identifier: pascalCase(code),
      description: message,
      ...(!(code in details) && { examples: [example] }),
    })
    .pipe(HttpApiSchema.status(status))
}

type ErrorBody<Code extends RefusalCode> = ReturnType<typeof errorBody<Code>>
type ErrorBodiesOf<Codes extends ReadonlyArray<RefusalCode>> = {
  readonly [Index in keyof Codes]: ErrorBody<Codes[Index]>
}

// One schema for each code: reusing the object in every endpoint makes it a single component of the document.
const bodies = new Map(refusalCodes.map((code) => [code, errorBody(code)]))

/** The error bodies of these codes, for the declaration of an endpoint. */
export const errorsOf = <const Codes extends ReadonlyArray<RefusalCode>>(...codes: Codes) =>
  codes.flatMap((code) => bodies.get(code) ?? []) as ReadonlyArray<Schema.Top> as ErrorBodiesOf<Codes>
