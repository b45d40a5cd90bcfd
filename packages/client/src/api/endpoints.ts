import * as Schema from "effect/Schema"
import * as HttpApiSchema from "effect/http-api/HttpApiSchema"
import { errorsOf } from "./ErrorBodies.ts"
import type { RefusalCode } from "./ErrorCatalogue.ts"
import { Id } from "./fieldSchemas.ts"

/** Errors that every endpoint with a JSON body may return. */
const jsonCodes = ["invalid_json", "invalid_request", "body_too_large", "unsupported_content_type"] as const
const serverCodes = ["headers_too_large", "internal_error", "service_unavailable"] as const

export const jobIdParam = { id: Id("job", "The job's identifier.") }

export const signalParams = {
  ...jobIdParam,
  name: Schema.String.annotate({
    description: "The name that the job waits for, 1 to 64 characters, percent-encoded.",
    examples: ["approved"],
  }),
}

/** The key in the examples of requests. */
export const exampleIdempotencyKey = "8e03978e-40d5-43e8-bc93-6894a57f9324"

export const idempotencyHeader = {
  "idempotency-key": Schema.String.annotate({
    description:
      "A unique value for each new job, 1 to 255 visible ASCII characters. Repeating a request with the same key returns the existing job.",
    examples: [exampleIdempotencyKey],
  }),
}

const retryAfter = Schema.FiniteFromString.annotate({ description: "Seconds to wait before polling again." })

/** 202 with the URL to poll. */
export const accepted = <S extends Schema.Top>(job: S) =>
  HttpApiSchema.WithHeaders(job.pipe(HttpApiSchema.status(202)), {
    location: Schema.String.annotate({ description: "Absolute URL to poll.", format: "uri" }),
    "retry-after": retryAfter,
    "idempotency-replayed": Schema.optionalKey(
      Schema.Literal("true").annotate({
        description: "Present if this request was a repeat: the job is the one that the first request created.",
      }),
    ),
  })

/** 200, with `Retry-After` while the job is not finished, and with `Link` if it failed and was retried. */
export const polled = <S extends Schema.Top>(job: S) =>
  HttpApiSchema.WithHeaders(job, {
    "retry-after": Schema.optionalKey(retryAfter),
    "preference-applied": Schema.optionalKey(
      Schema.String.annotate({ description: "Present if the preference `wait` was applied, with its seconds." }),
    ),
    vary: Schema.optionalKey(
      Schema.String.annotate({ description: "`prefer`, if the request has the preference `wait`." }),
    ),
    link: Schema.optionalKey(
      Schema.String.annotate({
        description:
          'Present if an operator retried the failed job: the URL of the newest retry, with `rel="latest-version"`.',
      }),
    ),
  })

export const uploadErrors = errorsOf(...jsonCodes, "uploads_full", "storage_full", ...serverCodes)
export const creationErrors = <const Codes extends ReadonlyArray<RefusalCode>>(...more: Codes) =>
  errorsOf(
    ...jsonCodes,
    "idempotency_key_missing",
    "idempotency_key_invalid",
    "idempotency_key_reused",
    "live_not_active",
    ...more,
    "spend_cap_reached",
    "storage_full",
    "queue_full",
    ...serverCodes,
  )
export const uploadUseCodes = ["upload_not_found", "upload_not_ready", "upload_already_used", "upload_expired"] as const
export const pollErrors = errorsOf("job_not_found", ...serverCodes)
export const eraseErrors = errorsOf("job_not_found", "job_processing", ...serverCodes)

export const signalErrors = errorsOf(...jsonCodes, "job_not_found", "job_finished", ...serverCodes)

export const streamErrors = errorsOf("invalid_request", "job_not_found", ...serverCodes)

export const lastEventId = Schema.String.annotate({
  description: "The `id` of the last event that was received: the stream goes on after it.",
  examples: ["41"],
})

/** The three parameters of a signed URL, in the only order in which they are valid. */
export const signedQuery = {
  e: Schema.String.annotate({ description: "When the URL expires, in Unix seconds." }),
  k: Schema.String.annotate({ description: "The key that signed the URL." }),
  s: Schema.String.annotate({ description: "The signature." }),
}
