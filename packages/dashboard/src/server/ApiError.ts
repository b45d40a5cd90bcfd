import * as Data from "effect/Data"
import { type AdminErrorCode, adminErrors } from "../api/errors.ts"

/** A refusal of a request. */
export class ApiError extends Data.TaggedError("ApiError")<{
  readonly code: AdminErrorCode
  readonly message: string
}> {}

/** Returns a refusal with this message, or that of the code. */
export const refuse = (code: AdminErrorCode, message: string = adminErrors[code].message): ApiError =>
  new ApiError({ code, message })
