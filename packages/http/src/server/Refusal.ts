import { Data } from "effect"
import { type ErrorEnvelope, errorCatalogue, type RefusalCode } from "@kiln/client/api"

/** A request is answered with an error of the catalogue. */
export class Refusal extends Data.TaggedError("Refusal")<{
  readonly code: RefusalCode
  /** Instead of the catalogue's. Never repeats what the client sent. */
  readonly message?: string
  readonly param?: string
  readonly details?: Readonly<Record<string, unknown>>
  /** Beside the catalogue's, by lower-case name. */
  readonly headers?: Readonly<Record<string, string>>
  /** For the log only. */
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
