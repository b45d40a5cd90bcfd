import type { IncomingMessage, RequestListener, ServerResponse } from "node:http"
import { Readable } from "node:stream"
import { pipeline } from "node:stream/promises"

/** What frameworks built on `fetch` do on Node: a `Request` of what came in, and its `Response` written out. */
export const listenerOf =
  (handler: (request: Request) => Promise<Response>): RequestListener =>
  (message, response) => {
    void answer(handler, message, response).catch(() => response.destroy())
  }

const answer = async (
  handler: (request: Request) => Promise<Response>,
  message: IncomingMessage,
  response: ServerResponse,
) => {
  const leaving = new AbortController()
  response.on("close", () => {
    if (!response.writableFinished) leaving.abort()
  })
  const { body, headers, status } = await handler(requestOf(message, leaving.signal))
  response.writeHead(status, [...headers].flat())
  if (body === null) response.end()
  else await pipeline(Readable.fromWeb(body as never), response)
}

const requestOf = (message: IncomingMessage, signal: AbortSignal): Request => {
  const headers = new Headers()
  for (let at = 0; at < message.rawHeaders.length; at += 2)
    headers.append(message.rawHeaders[at] ?? "", message.rawHeaders[at + 1] ?? "")
  const method = message.method ?? "GET"
  const body = ["GET", "HEAD"].includes(method) ? null : (Readable.toWeb(message) as ReadableStream<Uint8Array>)
  return new Request(`http://${message.headers.host}${message.url}`, {
    method,
    headers,
    body,
    signal,
    duplex: "half",
  } as RequestInit)
}
