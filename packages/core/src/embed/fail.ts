import { type ErrorCode, errorCodeForm } from "../domain/ErrorCode.ts"
import { type OptionNames, requireFlag, requireNumber, requireOptions } from "../domain/knownNames.ts"
import { AttemptFailed } from "../kinds/AttemptContext.ts"
import type { FailOptions } from "./JobKindOptions.ts"

const failOptions: OptionNames<FailOptions> = {
  message: true,
  publicMessage: true,
  retry: true,
  retryAfterMs: true,
  cause: true,
}

/**
 * Creates an error for an attempt to throw. The job fails with this code, either immediately or, with `retry`, once the attempts
 * are used up. The code is a built-in one or one that the kind declares in `errorCodes`; any other is a bug of the kind, which
 * fails the job with `internal_error` and is logged. Throws `TypeError` for invalid arguments.
 */
export const fail = (code: ErrorCode, options: FailOptions = {}): Error => {
  if (typeof code !== "string" || !errorCodeForm.test(code))
    throw new TypeError('the error code passed to fail() must be up to 64 lower-case letters, digits and "_"')
  requireOptions("fail()", options, failOptions)
  const { cause, message = code, publicMessage, retry, retryAfterMs } = options
  if (typeof message !== "string") throw new TypeError("message of fail() must be a string")
  if (publicMessage !== undefined && typeof publicMessage !== "string")
    throw new TypeError("publicMessage of fail() must be a string")
  requireFlag("retry of fail()", retry)
  if (retryAfterMs !== undefined) requireNumber("retryAfterMs of fail()", retryAfterMs, { least: 0 })
  return new AttemptFailed({
    errorCode: code,
    retry: retry ?? false,
    detail: message,
    ...(publicMessage !== undefined && { publicMessage }),
    ...(retryAfterMs !== undefined && { retryAfterMs }),
    ...(cause !== undefined && { cause }),
  })
}
