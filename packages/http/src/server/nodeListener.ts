import type { IncomingHttpHeaders } from "node:http"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import { Effect, Scope, Stream } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import type { App } from "./app.ts"
import { makeInTurn } from "./inTurn.ts"
import type { NodeRequest, NodeResponse } from "./NodeExchange.ts"
import { gatherBody, NodeSource } from "./NodeSource.ts"
import { PieceBudget } from "./PieceBudget.ts"
import type { Reply } from "./Reply.ts"

export type NodeListener = (request: NodeRequest, response: NodeResponse) => void

/** Answers requests of Node's server, each in a fiber that ends with the scope, or when its client goes away. */
export const nodeListener = Effect.fnUntraced(function* (app: App, scope: Scope.Scope): Effect.fn.Return<NodeListener> {
  const answering = answerNode(app)
  const inTime = yield* NodeHttpServer.makeHandler(answering, { scope })
  // What comes later is refused; in a scope that has ended it would get no answer at all.
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
 * Node reports a broken connection on the request and the response at any time until it has closed, also long after the body
 * was read or refused, and an error that nobody listens for ends the process. What has to happen then is done elsewhere: the
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
 * Returns whether the connection ends with this answer. Node reads nothing more from a connection whose client asked for
 * another protocol and got an answer instead: the next request on it would never be heard. An `Upgrade` that `Connection`
 * does not name asks for nothing.
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

/** Bytes written at once: a system call that copies megabytes holds up everybody else for many milliseconds. */
const sliceBytes = 65_536

/** A large body slice by slice, each in its own turn of the event loop, and only as the connection takes them. */
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
