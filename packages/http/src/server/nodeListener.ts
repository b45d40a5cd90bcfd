import type { IncomingMessage, ServerResponse } from "node:http"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import { Effect, Scope } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import type { App } from "./app.ts"
import { NodeSource } from "./NodeSource.ts"
import type { Reply } from "./Reply.ts"

export type NodeListener = (request: IncomingMessage, response: ServerResponse) => void

/** Answers requests of Node's server, each in a fiber that ends with the scope, or when its client goes away. */
export const nodeListener = Effect.fnUntraced(function* (app: App, scope: Scope.Scope): Effect.fn.Return<NodeListener> {
  const answering = answerNode(app)
  const inTime = yield* NodeHttpServer.makeHandler(answering, { scope })
  // What comes later is refused; in a scope that has ended it would get no answer at all.
  const late = yield* NodeHttpServer.makeHandler(answering, { scope: Scope.makeUnsafe() })
  return (request, response) => (app.isStopping() ? late : inTime)(request, response)
})

const answerNode = (app: App) =>
  Effect.gen(function* () {
    const request = yield* HttpServerRequest.HttpServerRequest
    const source = new NodeSource(
      // The service speaks HTTP/1 only; behind a server that speaks HTTP/2 these have the same members.
      NodeHttpServerRequest.toIncomingMessage(request) as IncomingMessage,
      NodeHttpServerRequest.toServerResponse(request) as ServerResponse,
    )
    const reply = yield* app.answer(source)
    return toNodeResponse(app.isStopping() ? { ...reply, headers: { ...reply.headers, connection: "close" } } : reply)
  })

const toNodeResponse = ({ body, headers, status }: Reply): HttpServerResponse.HttpServerResponse => {
  const options = { status, headers }
  if (body === undefined) return HttpServerResponse.empty(options)
  return typeof body === "string"
    ? HttpServerResponse.text(body, { ...options, contentType: headers["content-type"] ?? "text/plain" })
    : HttpServerResponse.stream(body, options)
}
