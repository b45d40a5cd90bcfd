import type { Stream } from "effect"
import { HttpServerResponse } from "effect/http"
import { errorCatalogue } from "../api/ErrorCatalogue.ts"
import type { Exchange } from "./Exchange.ts"
import { envelopeOf, type Refusal } from "./Refusal.ts"

/** What a handler answers: data, turned into a response in one place. */
export interface Reply {
  readonly status: number
  /** By lower-case name. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Stream.Stream<Uint8Array, unknown> | undefined
}

const jsonHeaders = { "content-type": "application/json; charset=utf-8", "cache-control": "no-store" }

export const jsonReply = (status: number, body: object, headers?: Readonly<Record<string, string>>): Reply => ({
  status,
  headers: headers === undefined ? jsonHeaders : { ...jsonHeaders, ...headers },
  body: JSON.stringify(body),
})

export const noContent: Reply = { status: 204, headers: { "cache-control": "no-store" }, body: undefined }

export const refusalReply = (refusal: Refusal, requestId: string): Reply => {
  const entry = errorCatalogue[refusal.code]
  return jsonReply(entry.status, envelopeOf(refusal, requestId), { ...entry.headers, ...refusal.headers })
}

/** The response with the headers that all of them have. */
export const toResponse = (
  exchange: Exchange,
  reply: Reply,
  closing: boolean,
): HttpServerResponse.HttpServerResponse => {
  const headers: Record<string, string> = {
    "x-request-id": exchange.requestId,
    "x-content-type-options": "nosniff",
    ...exchange.responseHeaders,
    ...reply.headers,
  }
  if (closing) headers["connection"] = "close"
  const options = { status: reply.status, headers }
  if (reply.body === undefined) return HttpServerResponse.empty(options)
  return typeof reply.body === "string"
    ? HttpServerResponse.text(reply.body, { ...options, contentType: headers["content-type"] ?? "text/plain" })
    : HttpServerResponse.stream(reply.body, options)
}
