/** An error response: its `error` object, status and headers. */
export interface OpenAiFailure {
  readonly status: number
  readonly message: string
  readonly type: string
  readonly param: string | null
  readonly code: string | null
  readonly headers: Readonly<Record<string, string>>
}

/**
 * The behavior of the stand-in for an accepted call. Plain data, so that it can be sent to a separate process. Without a
 * `value`, the answer is the usual one, which depends on the request.
 */
export type OpenAiBehavior<A> =
  | { readonly _tag: "Answer"; readonly value?: A }
  | { readonly _tag: "AnswerLate"; readonly delayMs: number; readonly value?: A }
  | {
      readonly _tag: "AnswerRaw"
      readonly status: number
      readonly headers: Readonly<Record<string, string>>
      readonly body: string | Uint8Array
    }
  | { readonly _tag: "Fail"; readonly failure: OpenAiFailure }
  | { readonly _tag: "Hang"; readonly after: "request" | "headers" }
  | { readonly _tag: "Trickle"; readonly chunkBytes: number; readonly everyMs: number }
  | { readonly _tag: "Reset"; readonly when: "before" | "middle" }
  | { readonly _tag: "Truncated"; readonly what: "body" | "file" }
  | { readonly _tag: "Malformed"; readonly how: "notJson" | "otherShape" | "wrongBase64" }
  | { readonly _tag: "Huge"; readonly bytes: number; readonly framing: "chunked" | "length" | "endless" }

/** Answers immediately: as usual, or with the given value. */
export const answer = <A = never>(value?: A): OpenAiBehavior<A> =>
  value === undefined ? { _tag: "Answer" } : { _tag: "Answer", value }

/** Answers after `delayMs` milliseconds. A client that does not wait is recorded as `client_gone`, with the time. */
export const answerLate = <A = never>(delayMs: number, value?: A): OpenAiBehavior<A> =>
  value === undefined ? { _tag: "AnswerLate", delayMs } : { _tag: "AnswerLate", delayMs, value }

/** Sends any response. */
export const answerRaw = (
  raw: {
    readonly status?: number
    readonly headers?: Readonly<Record<string, string>>
    readonly body?: string | Uint8Array
  } = {},
): OpenAiBehavior<never> => ({ _tag: "AnswerRaw", status: 200, headers: {}, body: "", ...raw })

/** Reads the complete request and never responds. */
export const hang: OpenAiBehavior<never> = { _tag: "Hang", after: "request" }

/** Sends status 200 and the headers, but no byte of the announced body. */
export const hangAfterHeaders: OpenAiBehavior<never> = { _tag: "Hang", after: "headers" }

/** Sends the usual answer in pieces of `chunkBytes` (default 1), one every `everyMs` milliseconds. */
export const trickle = (everyMs: number, chunkBytes = 1): OpenAiBehavior<never> => ({
  _tag: "Trickle",
  chunkBytes,
  everyMs,
})

/** Resets the connection: `before` any byte of the response, or in the `middle` of its body. */
export const reset = (when: "before" | "middle" = "before"): OpenAiBehavior<never> => ({ _tag: "Reset", when })

/**
 * Sends half of the answer. `body`: Content-Length announces all of it, and the connection ends normally. `file`: the HTTP
 * response is complete, but the audio, image or JSON in it is truncated.
 */
export const truncated = (what: "body" | "file" = "body"): OpenAiBehavior<never> => ({ _tag: "Truncated", what })

/**
 * Sends status 200 and the usual content type with text that is neither JSON nor audio, JSON of another shape, or an image
 * with invalid base64; for endpoints without base64, the last is JSON of another shape too.
 */
export const malformed = (how: "notJson" | "otherShape" | "wrongBase64" = "notJson"): OpenAiBehavior<never> => ({
  _tag: "Malformed",
  how,
})

/** Sends HTML with status 200, like a proxy or a login page. */
export const html: OpenAiBehavior<never> = answerRaw({
  headers: { "content-type": "text/html; charset=utf-8" },
  body: "<!doctype html><html><head><title>Sign in</title></head><body><h1>Sign in</h1></body></html>",
})

/** Sends status 200 and no body. */
export const empty: OpenAiBehavior<never> = answerRaw({ headers: { "content-type": "application/json" } })

/**
 * Sends a response of `bytes` bytes: the usual JSON after as much white space, or repetitions of the usual audio or image.
 * `length` announces its size, `chunked` does not, `endless` announces no size and never ends.
 */
export const huge = (bytes: number, framing: "chunked" | "length" = "chunked"): OpenAiBehavior<never> => ({
  _tag: "Huge",
  bytes,
  framing,
})
export const endless: OpenAiBehavior<never> = { _tag: "Huge", bytes: 0, framing: "endless" }

/** Redirects the client; 307 keeps method and body. */
export const redirectTo = (url: string, status: 301 | 302 | 303 | 307 | 308 = 307): OpenAiBehavior<never> =>
  answerRaw({ status, headers: { location: url } })
