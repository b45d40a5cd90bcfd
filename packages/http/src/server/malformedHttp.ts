import type { IncomingMessage, Server, ServerResponse } from "node:http"
import type { Socket } from "node:net"
import { errorCatalogue, type RefusalCode } from "@kiln/client/api"
import { envelopeOf, Refusal } from "./Exchange.ts"

/** Milliseconds a client gets to read its response before the connection is closed. */
const lingerMs = 500

const codeOf = (error: NodeJS.ErrnoException): RefusalCode | undefined => {
  switch (error.code) {
    case "HPE_HEADER_OVERFLOW":
      return "headers_too_large"
    case "ERR_HTTP_REQUEST_TIMEOUT":
      return "request_timeout"
    default:
      return error.code?.startsWith("HPE_") === true ? "malformed_request" : undefined
  }
}

/** Returns a raw response to bytes that never became a request. */
const rawResponse = (code: RefusalCode, requestId: string): string => {
  const { status } = errorCatalogue[code]
  const body = JSON.stringify(envelopeOf(new Refusal({ code }), requestId))
  return [
    `HTTP/1.1 ${status} ${reasonPhrase[status] ?? "Error"}`,
    "content-type: application/json; charset=utf-8",
    `content-length: ${Buffer.byteLength(body)}`,
    "cache-control: no-store",
    "x-content-type-options: nosniff",
    `x-request-id: ${requestId}`,
    "connection: close",
    "",
    body,
  ].join("\r\n")
}

const reasonPhrase: Readonly<Record<number, string>> = {
  400: "Bad Request",
  404: "Not Found",
  408: "Request Timeout",
  431: "Request Header Fields Too Large",
}

interface Latest {
  request: IncomingMessage
  response: ServerResponse
}

/** Tracks the latest request of each connection, with its response. */
const noteRequests = (server: Server): ((socket: Socket) => Latest | undefined) => {
  const latest = new WeakMap<Socket, Latest>()
  const note = (request: IncomingMessage, response: ServerResponse): void => {
    const known = latest.get(request.socket)
    if (known === undefined) latest.set(request.socket, { request, response })
    else {
      known.request = request
      known.response = response
    }
  }
  server.on("request", note).on("checkContinue", note).on("checkExpectation", note)
  return (socket) => latest.get(socket)
}

/**
 * Sends the error body for input that Node rejects before there is a request: malformed HTTP, headers that are too large or
 * time out, and tunnels.
 */
export const answerMalformedHttp = (server: Server, newRequestId: () => string): void => {
  const latestOf = noteRequests(server)
  const answered = new WeakSet<Socket>()
  const answer = (socket: Socket, code: RefusalCode) => {
    answered.add(socket)
    if (!socket.writable) return void socket.destroy()
    socket.end(rawResponse(code, newRequestId()))
    // Closing immediately would discard bytes that the client has not read yet.
    const cut = setTimeout(() => socket.destroy(), lingerMs)
    socket.once("close", () => clearTimeout(cut)).resume()
  }
  server.on("clientError", (error: NodeJS.ErrnoException, stream) => {
    const socket = stream as Socket
    if (answered.has(socket)) return
    const code = codeOf(error)
    const latest = latestOf(socket)
    if (code === undefined || !socket.writable) socket.destroy()
    else if (latest === undefined || (latest.request.complete && latest.response.writableFinished)) answer(socket, code)
    // Complete requests get their responses first, in order.
    else if (latest.request.complete) latest.response.once("finish", () => answer(socket, code))
    // A malformed body: this is the request's only response, unless one has already begun.
    else if (latest.response.headersSent) socket.destroy()
    else if (latest.response.socket !== null) answer(socket, code)
    else latest.response.once("socket", () => answer(socket, code))
  })
  server.on("connect", (_request, stream) => {
    const socket = stream as Socket
    const latest = latestOf(socket)
    socket.on("error", () => {})
    if (latest === undefined || latest.response.writableFinished) return answer(socket, "not_found")
    // Node has given up the connection, so an earlier response that exceeds its buffer can never be sent completely.
    const cut = setTimeout(() => socket.destroy(), lingerMs)
    socket.once("close", () => clearTimeout(cut))
    latest.response.once("finish", () => answer(socket, "not_found"))
  })
}
