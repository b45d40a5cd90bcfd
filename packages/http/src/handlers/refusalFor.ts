import type { CreateJobError, ReceiveError } from "@kiln/core/effect"
import type {
  AudioFormatMismatch,
  FileGone,
  InvalidRequest,
  JobFinished,
  JobNotFound,
  JobProcessing,
  SpendCapReached,
} from "@kiln/core"
import { audioFormats, type BlobCorrupt } from "@kiln/core/domain"
import { Refusal } from "../server/Exchange.ts"

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

const mismatch = ({ declared, detected, isText }: AudioFormatMismatch): string => {
  if (detected !== null)
    return `The file was declared as ${declared}, but it is ${detected}. Create an upload with the format ${detected}, and send the file to it.`
  if (isText)
    return `The file was declared as ${declared}, but it looks like text. Send the raw bytes of the audio file, not base64, JSON or a web page.`
  return `The file was declared as ${declared}, but it has none of the accepted formats: ${audioFormats.join(", ")}. Convert it to one of them.`
}

const mediaTypes = ([first = "", ...others]: ReadonlyArray<string>): string => {
  const accepted = others.length === 0 ? "" : ` (or ${others.join(", ")})`
  return `Send the raw bytes of the file with Content-Type: ${first}${accepted}, not a form and without Content-Encoding.`
}

/** Message and details for the client, or a cause for the log only. */
const moreOf = (error: EngineError): Pick<Refusal, "details" | "cause"> & { readonly message?: string } => {
  switch (error._tag) {
    case "LiveNotActive":
      return {
        message: `Live jobs of this type are not active: the operator must set up ${error.missing.join(", ")}. Test keys work without them.`,
        details: { missing: error.missing },
      }
    case "SpendCapReached":
      return { details: spendDetails(error) }
    case "UploadsFull":
      return { details: { uploads: error.uploads, bytes: error.bytes } }
    case "StorageFull":
      return {
        details: { max_bytes: error.maxBytes, upload_bytes: error.uploadBytes, result_bytes: error.resultBytes },
      }
    case "UnsupportedContentType":
      return {
        message: mediaTypes(error.expected),
        details: { expected: error.expected },
      }
    case "FileTooLarge":
      return {
        message: `The file is larger than ${error.maxBytes} bytes, the limit for uploads. Send a shorter or more compressed recording.`,
        details: { max_bytes: error.maxBytes },
      }
    case "AudioFormatMismatch":
      return { message: mismatch(error), details: { declared: error.declared, detected: error.detected } }
    case "PrerequisiteNotFound":
    case "StoreUnavailable":
    case "BlobUnavailable":
    case "BlobCorrupt":
      return { cause: error }
    default:
      return {}
  }
}
