import type { ServerResponse } from "node:http"
import { setTimeout as sleep } from "node:timers/promises"
import type { OpenAiBehavior, OpenAiFailure } from "./Behavior.ts"
import type { WireAnswer } from "./endpoints/Service.ts"

/** The response channel to one client. */
export interface WayBack {
  readonly response: ServerResponse
  /** Aborted when the connection has closed, on either side. */
  readonly closed: AbortSignal
  /** Breaks the connection on purpose, so that it is not recorded as `client_gone`. */
  readonly breakIt: (how: () => void) => void
}

/** Performs a behavior. Resolves when it is complete; rejects if the connection closes before. */
export const deliver = async (
  behavior: OpenAiBehavior<unknown>,
  usual: () => WireAnswer,
  back: WayBack,
): Promise<void> => {
  switch (behavior._tag) {
    case "Answer":
      return send(usual(), back)
    case "AnswerLate":
      await sleep(behavior.delayMs, undefined, { signal: back.closed })
      return send(usual(), back)
    case "AnswerRaw":
      return send({ ...behavior, body: Buffer.from(behavior.body) }, back)
    case "Fail":
      return send(failureAnswer(behavior.failure), back)
    case "Hang":
      if (behavior.after === "headers") begin(usual(), back)
      return
    case "Trickle":
      return trickle(usual(), behavior, back)
    case "Reset":
      return reset(usual(), behavior.when, back)
    case "Truncated":
      return truncate(usual(), behavior.what, back)
    case "Malformed":
      return send(malformed(usual(), behavior.how), back)
    case "Huge":
      return flood(usual(), behavior, back)
  }
  // Behaviors from JSON may have any value.
  throw new TypeError(`unknown behavior: ${JSON.stringify(behavior)}`)
}

export const failureAnswer = ({ headers, status, ...error }: OpenAiFailure): WireAnswer => ({
  status,
  headers: { "content-type": "application/json; charset=utf-8", ...headers },
  body: Buffer.from(
    JSON.stringify({ error: { message: error.message, type: error.type, param: error.param, code: error.code } }),
  ),
})

/** Sends headers immediately, with the Content-Length of the whole body. */
const begin = ({ body, headers, status }: WireAnswer, { response }: WayBack): void => {
  response.writeHead(status, { ...headers, "content-length": body.length })
  response.flushHeaders()
}

export const send = (answer: WireAnswer, { response }: WayBack): void => {
  response.writeHead(answer.status, { ...answer.headers, "content-length": answer.body.length })
  response.end(answer.body)
}

/** Resolves when the bytes were written to the socket; rejects if that becomes impossible. */
const write = (response: ServerResponse, bytes: Uint8Array): Promise<void> =>
  new Promise((resolve, reject) => {
    response.write(bytes, (error) => (error == null ? resolve() : reject(error)))
  })

const trickle = async (
  answer: WireAnswer,
  { chunkBytes, everyMs }: { readonly chunkBytes: number; readonly everyMs: number },
  back: WayBack,
): Promise<void> => {
  begin(answer, back)
  for (let at = 0; at < answer.body.length; at += chunkBytes) {
    await sleep(everyMs, undefined, { signal: back.closed })
    await write(back.response, answer.body.subarray(at, at + chunkBytes))
  }
  back.response.end()
}

const half = (bytes: Buffer): Buffer => bytes.subarray(0, bytes.length >> 1)

const reset = async (answer: WireAnswer, when: "before" | "middle", back: WayBack): Promise<void> => {
  if (when === "middle") {
    begin(answer, back)
    await write(back.response, half(answer.body))
  }
  back.breakIt(() => back.response.socket?.resetAndDestroy())
}

const truncate = async (answer: WireAnswer, what: "body" | "file", back: WayBack): Promise<void> => {
  if (what === "file") return send({ ...answer, body: answer.cut?.() ?? half(answer.body) }, back)
  begin(answer, back)
  await write(back.response, half(answer.body))
  back.breakIt(() => back.response.socket?.destroySoon())
}

const otherShape = Buffer.from(JSON.stringify({ object: "something.else", items: [{ id: 1 }] }))

const malformed = (answer: WireAnswer, how: "notJson" | "otherShape" | "wrongBase64"): WireAnswer => {
  if (how === "notJson") return { ...answer, body: Buffer.from("{ this is not JSON, and no file either") }
  return { ...answer, body: how === "wrongBase64" ? (answer.wrongBase64?.() ?? otherShape) : otherShape }
}

const PIECE_BYTES = 65_536

const flood = async (
  answer: WireAnswer,
  { bytes, framing }: { readonly bytes: number; readonly framing: "chunked" | "length" | "endless" },
  back: WayBack,
): Promise<void> => {
  const isJson = answer.headers["content-type"]?.startsWith("application/json") === true
  // JSON may begin with white space, so only the size is wrong.
  const padding = isJson ? Buffer.alloc(PIECE_BYTES, " ") : repeated(answer.body)
  const padBytes = framing === "endless" ? Number.POSITIVE_INFINITY : Math.max(0, bytes - answer.body.length)
  const length = framing === "length" ? { "content-length": padBytes + answer.body.length } : {}
  back.response.writeHead(answer.status, { ...answer.headers, ...length })
  if (!isJson) await write(back.response, answer.body)
  for (let left = padBytes; left > 0; left -= padding.length) {
    await write(back.response, padding.subarray(0, Math.min(padding.length, left)))
  }
  back.response.end(isJson ? answer.body : undefined)
}

/** Repeats the file until the piece is large enough to send. */
const repeated = (body: Buffer): Buffer =>
  Buffer.concat(Array.from({ length: Math.ceil(PIECE_BYTES / Math.max(1, body.length)) }, () => body))
