import * as Schema from "effect/Schema"
import { errorCodes, meters, warningCodes } from "@kiln/core/domain"
import { Id } from "./fieldSchemas.ts"

const JobId = Id("job", "The job's identifier.")
const JobStatus = Schema.Literals(["queued", "processing", "done", "failed"]).annotate({
  identifier: "JobStatus",
  description: "The status of the job. `done` and `failed` are final. A status never moves backwards.",
})

const JobMode = Schema.Literals(["sandbox", "live"]).annotate({
  identifier: "JobMode",
  description: "The mode of the key that created the job.",
})
const ErrorCode = Schema.Literals(errorCodes).annotate({
  identifier: "JobErrorCode",
  description: "Why a job failed.",
})
const WarningCode = Schema.Literals(warningCodes).annotate({
  identifier: "JobWarningCode",
  description: "A warning about the result.",
})

/** A job as it is created; a repeated request with the same Idempotency-Key gets the same body. */
export const createdJob = <const Type extends string>(type: Type, identifier: string) =>
  Schema.Struct({
    id: JobId,
    object: Schema.Literal("job"),
    type: Schema.Literal(type),
    mode: JobMode,
    status: Schema.Literal("queued"),
  }).annotate({ identifier })

/** A signal for a job. */
export const SendSignal = Schema.Struct({
  value: Schema.Json.annotate({
    description: "Any JSON, at most 65,536 characters. The first value of each name counts.",
  }),
}).annotate({ identifier: "SendSignal", examples: [{ value: { by: "Ada" } }] })

/** The same for each repetition of a request. */
export const SentSignal = Schema.Struct({
  id: JobId,
  name: Schema.String,
  is_first: Schema.Boolean.annotate({
    description: "Whether the job gets this value: false if another value came before under this name.",
  }),
}).annotate({ identifier: "SentSignal" })

/** The data of the events of a job's stream. */
export const StreamEvent = Schema.Union([
  Schema.Struct({
    index: Schema.Int.annotate({ description: "From 0, without gaps. It is the `id` of the event." }),
    attempt: Schema.Int.annotate({ description: "The attempt that emitted the chunk, from 1." }),
    value: Schema.Json,
  }).annotate({ identifier: "JobChunk" }),
  Schema.Struct({
    status: Schema.NullOr(Schema.Literals(["done", "failed"])).annotate({
      description: "`null` if the record of the job was deleted while it was streamed.",
    }),
  }).annotate({
    identifier: "StreamEnd",
    description: "The last event, `end`: the job has finished.",
  }),
])

const Amount = Schema.String.annotate({ description: "An exact decimal number.", examples: ["0.0042"] })

const LineItem = Schema.Struct({
  meter: Schema.Literals(meters).annotate({
    identifier: "Meter",
    description: "The unit that is counted.",
  }),
  quantity: Schema.Int,
  unit_amount: Amount,
  amount: Amount,
}).annotate({ identifier: "LineItem" })

const Billing = Schema.Struct({
  status: Schema.Literals(["pending", "charged", "not_charged"]),
  currency: Schema.String.annotate({ description: "ISO 4217 code in lower case.", examples: ["usd"] }),
  amount: Schema.NullOr(Amount).annotate({ description: "The total; `null` while the status is `pending`." }),
  line_items: Schema.Array(LineItem),
}).annotate({ identifier: "Billing" })

/** The URL of a file, as polling returns it. */
export const FileUrl = (what: string) =>
  Schema.String.annotate({
    description: `${what} A signed URL, valid for 10 minutes after this poll.`.trimStart(),
    format: "uri",
  })

const Progress = Schema.optionalKey(
  Schema.Struct({
    value: Schema.Finite.annotate({ description: "The finished share of the work, from 0 to 1." }),
    message: Schema.NullOr(Schema.String),
  }).annotate({ identifier: "JobProgress", description: "How far a running job is." }),
)

const ErrorMessage = Schema.optionalKey(Schema.String).annotate({
  description: "What the kind says about a failed job, as long as the job's data is kept.",
})

interface CustomFields {
  readonly progress: typeof Progress
  readonly error_message: typeof ErrorMessage
}

/** Only custom kinds report progress and messages, so families of built-in ones have no such fields. */
const customFields = (reports: boolean) =>
  (reports ? { progress: Progress, error_message: ErrorMessage } : {}) as CustomFields

/** The state of a polled job, with billing and codes; a code is `null` if it does not apply. */
export const fullState = <Output>(
  output: Schema.Codec<Output>,
  identifier: string,
  reports: boolean,
  example: object,
) =>
  Schema.Struct({
    id: JobId,
    status: JobStatus,
    ...customFields(reports),
    output: Schema.optionalKey(output).annotate({ description: whenDone }),
    billing: Billing,
    warning_code: Schema.NullOr(WarningCode),
    error_code: Schema.NullOr(ErrorCode),
  }).annotate({
    identifier,
    examples: [
      {
        id: "job_01k9q3w5zr8x2v6m4n7p0t1c3d",
        status: "done",
        output: example as Output,
        billing: { status: "not_charged", currency: "usd", amount: "0", line_items: [] },
        warning_code: null,
        error_code: null,
      },
    ],
  })

/** The state of a polled job in a family that omits fields that do not apply. */
export const briefState = <Output>(output: Schema.Codec<Output>, identifier: string, reports: boolean) =>
  Schema.Struct({
    id: JobId,
    status: JobStatus,
    ...customFields(reports),
    output: Schema.optionalKey(output).annotate({ description: whenDone }),
    error_code: Schema.optionalKey(ErrorCode),
    warning_code: Schema.optionalKey(Schema.Literals(["data_expired", "data_deleted"])).annotate({
      description: "Present once the job's data has been deleted.",
    }),
  }).annotate({ identifier, examples: [{ id: "job_01k9q3w5zr8x2v6m4n7p0t1c3d", status: "processing" }] })

const whenDone = "Present once the job is done, until its data is deleted."
