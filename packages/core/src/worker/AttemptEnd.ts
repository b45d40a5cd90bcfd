import { Cause, Option } from "effect"
import type { AttemptFailure } from "../domain/Attempt.ts"
import type { AttemptError } from "../kinds/AttemptContext.ts"
import { Misuse } from "../kinds/Misuse.ts"

/** How an attempt ended that brought no result, and what follows from it. */
export type AttemptEnd =
  /** The claim is gone: nothing may be written. */
  | { readonly _tag: "LeaseLost" }
  /** The worker stops, or the gate shut: given back unharmed. */
  | { readonly _tag: "Released" }
  /** Our own store or blobs were out of reach, or a provider is no use to anybody: later again, and not the job's fault. */
  | {
      readonly _tag: "Postponed"
      readonly outOfReach: "StoreUnavailable" | "BlobUnavailable" | "ProviderPaused" | "ProviderBroken"
    }
  /** A provider wants to be asked again later: later again, and nobody's fault. */
  | { readonly _tag: "PutOff"; readonly delayMs: number }
  /** The attempt itself failed. */
  | { readonly _tag: "Failed"; readonly failure: AttemptFailure }

const internal = (retry: boolean): AttemptEnd => ({ _tag: "Failed", failure: { errorCode: "internal_error", retry } })

/** A mistake of the kind's author among what an attempt ended with. It outweighs everything else: another attempt makes it again. */
export const misuseIn = (cause: Cause.Cause<unknown>): Misuse | undefined =>
  cause.reasons
    .map((reason) => (Cause.isDieReason(reason) ? reason.defect : undefined))
    .find((it) => it instanceof Misuse)

/**
 * Reads why an attempt ended by itself. A defect is tried again within the failure budget, and so is a provider that
 * interrupted itself; damaged input and a mistake of the kind's author are not.
 */
export const attemptEnd = (cause: Cause.Cause<AttemptError>): AttemptEnd => {
  if (misuseIn(cause) !== undefined) return internal(false)
  const error = Option.getOrUndefined(Cause.findErrorOption(cause))
  if (error === undefined) return internal(true)
  switch (error._tag) {
    case "LeaseLost":
      return { _tag: "LeaseLost" }
    case "GateShut":
      return { _tag: "Released" }
    case "StoreUnavailable":
    case "BlobUnavailable":
    case "ProviderPaused":
    case "ProviderBroken":
      return { _tag: "Postponed", outOfReach: error._tag }
    case "ProviderPostponed":
      return { _tag: "PutOff", delayMs: error.delayMs }
    case "BlobCorrupt":
      return internal(false)
    case "AttemptFailed":
      return { _tag: "Failed", failure: { errorCode: error.errorCode, retry: error.retry } }
    case "ProviderFailure":
      return {
        _tag: "Failed",
        failure: { errorCode: error.errorCode, retry: error.retry, retryAfterMs: error.retryAfterMs },
      }
  }
}
