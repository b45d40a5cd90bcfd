import * as Data from "effect/Data"
import { type ErrorEnvelope, errorCatalogue, type RefusalCode } from "@kiln/client/api"

/** Fails a request with an error of the catalog. */
export class Refusal extends Data.TaggedError("Refusal")<{
  readonly code: RefusalCode
  /** Replaces the catalog's message. Never repeats client input. */
  readonly message?: string
  readonly param?: string
  readonly details?: Readonly<Record<string, unknown>>
  /** Additional headers, by lower-case name. */
  readonly headers?: Readonly<Record<string, string>>
  /** Only for the log. */
  readonly cause?: unknown
}> {}

export const envelopeOf = (refusal: Refusal, requestId: string): ErrorEnvelope => {
  const { message, type } = errorCatalogue[refusal.code]
  return {
    error: {
      type,
      code: refusal.code,
      message: refusal.message || message,
      param: refusal.param ?? null,
      details: refusal.details ?? null,
      request_id: requestId,
    },
  }
}
