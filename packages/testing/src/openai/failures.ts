import type { OpenAiBehavior, OpenAiFailure } from "./Behavior.ts"

// Status, message, type and code are those of the real service, from its documentation and responses.

/** Responds with an error in OpenAI's envelope. Default: the 500 of `serverError`. */
export const failWith = (failure: Partial<OpenAiFailure> = {}): OpenAiBehavior<never> => ({
  _tag: "Fail",
  failure: {
    status: 500,
    message: "The server had an error while processing your request. Sorry about that!",
    type: "server_error",
    param: null,
    code: null,
    headers: {},
    ...failure,
  },
})

/** Temporary 429. `retryAfter` sets the header: seconds or an HTTP date; `undefined` omits it. */
export const rateLimited = (retryAfter?: number | string): OpenAiBehavior<never> =>
  failWith({
    status: 429,
    message: "Rate limit reached for requests. Limit: 3 / min. Please try again later.",
    type: "requests",
    code: "rate_limit_exceeded",
    headers: retryAfter === undefined ? {} : { "retry-after": String(retryAfter) },
  })

/** Permanent 429: the account has no credit left. */
export const insufficientQuota: OpenAiBehavior<never> = failWith({
  status: 429,
  message: "You exceeded your current quota, please check your plan and billing details.",
  type: "insufficient_quota",
  code: "insufficient_quota",
})

/** 401 for any key; the message repeats part of `key`, like the real one. */
export const invalidKey = (key = "sk-revoked-0123456789"): OpenAiBehavior<never> => ({
  _tag: "Fail",
  failure: invalidApiKey(key),
})

export const serverError: OpenAiBehavior<never> = failWith()

export const overloaded: OpenAiBehavior<never> = failWith({
  status: 503,
  message: "The engine is currently overloaded, please try again later.",
})

/** Content rejection (400) of the older image models, and of text. */
export const contentPolicyViolation: OpenAiBehavior<never> = failWith({
  status: 400,
  message: "Your request was rejected as a result of our safety system.",
  type: "invalid_request_error",
  code: "content_policy_violation",
})

/** Content rejection (400) of the newer image models. */
export const moderationBlocked: OpenAiBehavior<never> = failWith({
  status: 400,
  message: "Your request was rejected by the safety system.",
  type: "image_generation_user_error",
  code: "moderation_blocked",
})

/** 400, optionally about a parameter. */
export const badRequest = (param: string | null = null, message = "Invalid request."): OpenAiBehavior<never> =>
  failWith({ status: 400, message, type: "invalid_request_error", param, code: "invalid_value" })

/** Thrown while a request is parsed: a rejection by the stand-in itself. */
export class RequestRefused extends Error {
  override readonly name = "RequestRefused"
  readonly failure: OpenAiFailure

  constructor(failure: OpenAiFailure) {
    super(failure.message)
    this.failure = failure
  }
}

const invalidRequest = (
  message: string,
  more: Partial<Omit<OpenAiFailure, "message" | "type">> = {},
): OpenAiFailure => ({
  status: 400,
  message,
  type: "invalid_request_error",
  param: null,
  code: null,
  headers: {},
  ...more,
})

export const refuse = (...args: Parameters<typeof invalidRequest>): RequestRefused =>
  new RequestRefused(invalidRequest(...args))

export const missingApiKey: OpenAiFailure = invalidRequest(
  "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer auth " +
    "(i.e. Authorization: Bearer YOUR_KEY).",
  { status: 401 },
)

export const invalidApiKey = (key: string): OpenAiFailure =>
  invalidRequest(`Incorrect API key provided: ${masked(key)}. You can find your API key in your account's settings.`, {
    status: 401,
    code: "invalid_api_key",
  })

const masked = (key: string): string =>
  key.length <= 12 ? `${key.slice(0, 2)}******` : `${key.slice(0, 8)}${"*".repeat(key.length - 12)}${key.slice(-4)}`

export const modelNotFound = (model: string): RequestRefused =>
  refuse(`The model \`${model}\` does not exist or you do not have access to it.`, {
    status: 404,
    code: "model_not_found",
  })

export const missingParameter = (param: string): RequestRefused =>
  refuse(`Missing required parameter: '${param}'.`, { param, code: "missing_required_parameter" })
