import { type ErrorCode, errorCodeForm } from "../domain/ErrorCode.ts"
import { type OptionNames, requireFlag, requireNumber, requireOptions } from "../domain/givenValues.ts"
import { AttemptFailed } from "../kinds/AttemptContext.ts"
import { KindBug } from "../kinds/KindBug.ts"
import type { FailureOptions } from "./AttemptTypes.ts"

const failureOptions: OptionNames<FailureOptions> = {
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
export const failure = (code: ErrorCode, options: FailureOptions = {}): Error => {
  if (typeof code !== "string" || !errorCodeForm.test(code))
    throw new TypeError(
      'the error code passed to failure() must be up to 64 lower-case letters, digits and "_"; pass text as failure(code, { message })',
    )
  requireOptions("failure()", options, failureOptions)
  const { cause, message = code, publicMessage, retry, retryAfterMs } = options
  if (typeof message !== "string") throw new TypeError("message of failure() must be a string")
  if (publicMessage !== undefined && typeof publicMessage !== "string")
    throw new TypeError("publicMessage of failure() must be a string")
  requireFlag("retry of failure()", retry)
  if (retryAfterMs !== undefined) requireNumber("retryAfterMs of failure()", retryAfterMs, { least: 0 })
  return new AttemptFailed({
    errorCode: code,
    retry: retry ?? false,
    detail: message,
    ...(publicMessage !== undefined && { publicMessage }),
    ...(retryAfterMs !== undefined && { retryAfterMs }),
    ...(cause !== undefined && { cause }),
  })
}

/**
 * The errors that an attempt has made with `failure` and not thrown yet. An error that nothing throws has no effect, which is a bug.
 * One that the function throws and catches itself cannot be told from it.
 */
export class MadeErrors {
  #codes: Map<unknown, string> | undefined

  readonly failure: typeof failure = (code, options) => {
    const error = failure(code, options)
    ;(this.#codes ??= new Map()).set(error, code)
    return error
  }

  /** Says that the function of a step or a file has thrown this. */
  wasThrown(thrown: unknown): void {
    this.#codes?.delete(thrown)
  }

  /** The bug of a function that returns after it made an error that nothing has thrown; `undefined` without one. */
  get bug(): KindBug | undefined {
    if (this.#codes === undefined) return undefined
    const [code] = this.#codes.values()
    return code === undefined
      ? undefined
      : new KindBug(
          `failure("${code}") has no effect unless its error ends run: write throw failure("${code}"); where run catches it, throw an error of your own`,
        )
  }
}
