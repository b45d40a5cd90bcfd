/** What stands in the `error` of an answer that is one, and around it. */
export interface OpenAiFailure {
  readonly status: number
  readonly message: string
  readonly type: string
  readonly param: string | null
  readonly code: string | null
  readonly headers: Readonly<Record<string, string>>
}

/**
 * What the stand-in does with a call that it would have answered. Plain data, so that it also goes to a process of its own.
 * Without a `value` an answer is the usual one, which depends on the request.
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

/** Answers at once: as usual, or with what is given. */
export const answer = <A = never>(value?: A): OpenAiBehavior<A> =>
  value === undefined ? { _tag: "Answer" } : { _tag: "Answer", value }

/** The same after that many milliseconds. A client that did not wait is recorded as `client_gone`, with the moment. */
export const answerLate = <A = never>(delayMs: number, value?: A): OpenAiBehavior<A> =>
  value === undefined ? { _tag: "AnswerLate", delayMs } : { _tag: "AnswerLate", delayMs, value }

/** Any answer at all. */
export const answerRaw = (
  raw: {
    readonly status?: number
    readonly headers?: Readonly<Record<string, string>>
    readonly body?: string | Uint8Array
  } = {},
): OpenAiBehavior<never> => ({ _tag: "AnswerRaw", status: 200, headers: {}, body: "", ...raw })

/** Takes the request whole and never says a word. */
export const hang: OpenAiBehavior<never> = { _tag: "Hang", after: "request" }

/** Sends status 200 and the headers, and none of the body they announce. */
export const hangAfterHeaders: OpenAiBehavior<never> = { _tag: "Hang", after: "headers" }

/** The usual answer in pieces of `chunkBytes`, one every `everyMs` milliseconds; byte by byte at first. */
export const trickle = (everyMs: number, chunkBytes = 1): OpenAiBehavior<never> => ({
  _tag: "Trickle",
  chunkBytes,
  everyMs,
})

/** The connection is reset: `before` any byte of the answer, or in the `middle` of its body. */
export const reset = (when: "before" | "middle" = "before"): OpenAiBehavior<never> => ({ _tag: "Reset", when })

/**
 * Half of the answer. `body`: Content-Length announces all of it, and the connection ends in good order. `file`: HTTP is
 * whole, and the audio, the image or the JSON in it is cut.
 */
export const truncated = (what: "body" | "file" = "body"): OpenAiBehavior<never> => ({ _tag: "Truncated", what })

/**
 * Status 200 and the usual content type around text that is not JSON (and no audio), JSON of another shape, or an image
 * whose base64 is none; where an endpoint sends no base64, the last is JSON of another shape too.
 */
export const malformed = (how: "notJson" | "otherShape" | "wrongBase64" = "notJson"): OpenAiBehavior<never> => ({
  _tag: "Malformed",
  how,
})

/** What a proxy or a login page answers: status 200, in HTML. */
export const html: OpenAiBehavior<never> = answerRaw({
  headers: { "content-type": "text/html; charset=utf-8" },
  body: "<!doctype html><html><head><title>Sign in</title></head><body><h1>Sign in</h1></body></html>",
})

/** Status 200 and no body. */
export const empty: OpenAiBehavior<never> = answerRaw({ headers: { "content-type": "application/json" } })

/**
 * An answer of `bytes` bytes: the usual one behind that much white space where it is JSON, repeated where it is audio or
 * an image. `length` announces its size, `chunked` does not, `endless` announces nothing and goes on for ever.
 */
export const huge = (bytes: number, framing: "chunked" | "length" = "chunked"): OpenAiBehavior<never> => ({
  _tag: "Huge",
  bytes,
  framing,
})
export const endless: OpenAiBehavior<never> = { _tag: "Huge", bytes: 0, framing: "endless" }

/** Sends the client elsewhere; 307 keeps method and body. */
export const redirectTo = (url: string, status: 301 | 302 | 303 | 307 | 308 = 307): OpenAiBehavior<never> =>
  answerRaw({ status, headers: { location: url } })
