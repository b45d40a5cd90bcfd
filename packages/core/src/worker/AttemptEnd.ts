import { Cause, Option } from "effect"
import type { AttemptFailure } from "../domain/index.ts"
import type { AttemptError } from "../kinds/JobKind.ts"

/** How an attempt ended that brought no result, and what follows from it. */
export type AttemptEnd =
  /** The claim is gone: nothing may be written. */
  | { readonly _tag: "LeaseLost" }
  /** The worker stops, or the gate shut: given back unharmed. */
  | { readonly _tag: "Released" }
  /** Our own store or blobs were out of reach: later again, and not the job's fault. */
  | { readonly _tag: "Postponed" }
  /** The attempt itself failed. */
  | { readonly _tag: "Failed"; readonly failure: AttemptFailure; readonly detail: string }

const internal = (detail: string, retry: boolean): AttemptEnd => ({
  _tag: "Failed",
  failure: { errorCode: "internal_error", retry },
  detail,
})

/** Reads an attempt's cause. A defect is tried again within the failure budget; damaged input is not. */
export const attemptEnd = (cause: Cause.Cause<AttemptError>): AttemptEnd => {
  const error = Option.getOrUndefined(Cause.findErrorOption(cause))
  if (error === undefined) return Cause.hasInterruptsOnly(cause) ? { _tag: "Released" } : internal("defect", true)
  switch (error._tag) {
    case "LeaseLost":
      return { _tag: "LeaseLost" }
    case "GateShut":
      return { _tag: "Released" }
    case "StoreUnavailable":
    case "BlobUnavailable":
      return { _tag: "Postponed" }
    case "BlobNotFound":
    case "BlobCorrupt":
      return internal(error._tag, false)
    case "AttemptFailed":
      return { _tag: "Failed", failure: { errorCode: error.errorCode, retry: error.retry }, detail: error.detail }
    case "ProviderFailure":
      return {
        _tag: "Failed",
        failure: { errorCode: error.errorCode, retry: error.retry, retryAfterMs: error.retryAfterMs },
        detail: error.detail,
      }
  }
}
