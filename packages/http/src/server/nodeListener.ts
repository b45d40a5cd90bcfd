import type { IncomingHttpHeaders } from "node:http"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import * as Effect from "effect/Effect"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as HttpServerRequest from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import type { App } from "./app.ts"
import { makeInTurn } from "./inTurn.ts"
import type { NodeRequest, NodeResponse } from "./NodeExchange.ts"
import { gatherBody, NodeSource } from "./NodeSource.ts"
import { PieceBudget } from "./PieceBudget.ts"
import type { Reply } from "./Reply.ts"

export type NodeListener = (request: NodeRequest, response: NodeResponse) => void

/** Handles requests of Node's server, each in a fiber that ends with the scope, or when its client disconnects. */
export const nodeListener = Effect.fnUntraced(function* (app: App, scope: Scope.Scope): Effect.fn.Return<NodeListener> {
  const answering = answerNode(app)
  const inTime = yield* NodeHttpServer.makeHandler(answering, { scope })
  // Later requests are rejected; in a closed scope they would get no response at all.
  const late = yield* NodeHttpServer.makeHandler(answering, { scope: Scope.makeUnsafe() })
  const inTurn = makeInTurn()
  const pieces = new PieceBudget()
  return (request, response) => {
    keepListening(request, response)
    gatherBody(request, response, pieces)
    inTurn(request, response, () => (app.isStopping() ? late : inTime)(request, response))
  }
})

/**
 * Ignores error events. Node reports a broken connection on the request and the response until it has closed, even long
 * after the body was read or rejected, and an error without a listener ends the process. The error is handled elsewhere: the
 * reader of the body sees it end, and the fiber is interrupted when the response closes.
 */
const keepListening = (request: NodeRequest, response: NodeResponse): void => {
  request.on("error", ignore)
  response.on("error", ignore)
}
const ignore = (): void => {}

const answerNode = (app: App) =>
  Effect.gen(function* () {
    const request = yield* HttpServerRequest.HttpServerRequest
    const source = new NodeSource(
      NodeHttpServerRequest.toIncomingMessage(request),
      NodeHttpServerRequest.toServerResponse(request),
    )
    const reply = yield* app.answer(source)
    return toNodeResponse(
      closesAfter(app, source) ? { ...reply, headers: { ...reply.headers, connection: "close" } } : reply,
    )
  })

/**
 * Returns whether the connection ends with this response. Node stops reading from a connection whose client requested an
 * upgrade and got a response instead, so the next request on it would never be read. An `Upgrade` that is not listed in
 * `Connection` has no effect.
 */
const closesAfter = (app: App, { message }: NodeSource): boolean =>
  app.isStopping() || (message.httpVersionMajor === 1 && asksToUpgrade(message.headers))

const asksToUpgrade = ({ connection = "", upgrade }: IncomingHttpHeaders): boolean =>
  upgrade !== undefined && connection.split(",").some((option) => option.trim().toLowerCase() === "upgrade")

const toNodeResponse = ({ body, headers, status }: Reply): HttpServerResponse.HttpServerResponse => {
  const options = { status, headers }
  if (body === undefined) return HttpServerResponse.empty(options)
  if (Stream.isStream(body)) return HttpServerResponse.stream(body, options)
  const whole = { ...options, contentType: headers["content-type"] ?? "text/plain" }
  if (typeof body === "string") return HttpServerResponse.text(body, whole)
  if (body.length <= sliceBytes) return HttpServerResponse.uint8Array(body, whole)
  return HttpServerResponse.stream(inSlices(body), { ...whole, contentLength: body.length })
}

/** Maximum number of bytes per write, because a system call that copies megabytes blocks other requests for many milliseconds. */
const sliceBytes = 65_536

/** Streams a large body in slices, each in a separate turn of the event loop and with backpressure. */
const inSlices = (body: Uint8Array<ArrayBuffer>): Stream.Stream<Uint8Array> =>
  Stream.unfold(0, (at) =>
    at >= body.length
      ? Effect.undefined
      : Effect.as(nextTurn, [body.subarray(at, at + sliceBytes), at + sliceBytes] as const),
  )

const nextTurn = Effect.callback<void>((resume) => {
  const immediate = setImmediate(() => resume(Effect.void))
  return Effect.sync(() => clearImmediate(immediate))
})
