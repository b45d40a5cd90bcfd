import type { CreateJobError, ReceiveError } from "@kiln/core/effect"
import type { FileGone, InvalidRequest, JobFinished, JobNotFound, JobProcessing, SpendCapReached } from "@kiln/core"
import type { BlobCorrupt } from "@kiln/core/domain"
import { Refusal } from "../server/Refusal.ts"

/** The engine's errors that reach clients. `InvalidRequest` needs the wire names of its fields: see `FieldNames.refuse`. */
type EngineError = Exclude<
  CreateJobError | ReceiveError | JobNotFound | JobProcessing | JobFinished | FileGone | BlobCorrupt,
  InvalidRequest
>

/** Translates an error of the engine: over HTTP it has the same code. `param` is the field at fault. */
export const refusalFor = (error: EngineError, param?: string): Refusal =>
  new Refusal({ code: codeOf(error), ...(param !== undefined && { param }), ...moreOf(error) })

/** No request over HTTP names prerequisites. */
const codeOf = (error: EngineError) => (error._tag === "PrerequisiteNotFound" ? "internal_error" : error.code)

const spendDetails = ({ currency, maximumCost, owner, period, reason, resetsAt }: SpendCapReached) => ({
  cap: owner,
  reason,
  period,
  currency,
  maximum_cost: maximumCost,
  resets_at: resetsAt === null ? null : resetsAt.toISOString().replace(/\.[0-9]{3}Z$/, "Z"),
})

/** Details for the client, or a cause for the log only. */
const moreOf = (error: EngineError): Pick<Refusal, "details" | "cause"> => {
  switch (error._tag) {
    case "LiveNotActive":
      return { details: { missing: error.missing } }
    case "SpendCapReached":
      return { details: spendDetails(error) }
    case "UploadsFull":
      return { details: { uploads: error.uploads, bytes: error.bytes } }
    case "StorageFull":
      return {
        details: { max_bytes: error.maxBytes, upload_bytes: error.uploadBytes, result_bytes: error.resultBytes },
      }
    case "UnsupportedContentType":
      return { details: { expected: error.expected } }
    case "FileTooLarge":
      return { details: { max_bytes: error.maxBytes } }
    case "AudioFormatMismatch":
      return { details: { declared: error.declared, detected: error.detected } }
    case "PrerequisiteNotFound":
    case "StoreUnavailable":
    case "BlobUnavailable":
    case "BlobCorrupt":
      return { cause: error }
    default:
      return {}
  }
}
