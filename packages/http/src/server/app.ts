import type { IncomingMessage, ServerResponse } from "node:http"
import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import { Cause, Effect, type Scope } from "effect"
import { HttpServerRequest, type HttpServerResponse } from "effect/http"
import type { RequestId } from "@kiln/core/domain"
import { BodyBroken, discardBody } from "./body.ts"
import { corsHeaders } from "./cors.ts"
import { Exchange } from "./Exchange.ts"
import { Refusal } from "./Refusal.ts"
import { refusalReply, type Reply, toResponse } from "./Reply.ts"
import type { Router } from "./Router.ts"

export type App = Effect.Effect<
  HttpServerResponse.HttpServerResponse,
  never,
  HttpServerRequest.HttpServerRequest | Scope.Scope
>

export interface AppOptions {
  readonly router: Router
  readonly newRequestId: Effect.Effect<RequestId>
  /** The service is stopping: what begins now is not answered any more. */
  readonly isStopping: () => boolean
}

/** One request, one response: finds the route, and turns whatever comes of it into a reply. */
export const makeApp = ({ isStopping, newRequestId, router }: AppOptions): App => {
  const dispatch = (exchange: Exchange) => {
    // RFC 9112, section 3.2: exactly one Host.
    const hosts = exchange.header("host")?.length ?? 0
    if (hosts > 1 || (hosts === 0 && exchange.source.httpVersion === "1.1"))
      return Effect.fail(new Refusal({ code: "malformed_request" }))
    const match = router.match(exchange.method, exchange.path)
    if (match._tag === "NotFound") return Effect.fail(new Refusal({ code: "not_found" }))
    if (match.cors) Object.assign(exchange.responseHeaders, corsHeaders)
    if (match._tag === "WrongMethod")
      return Effect.fail(new Refusal({ code: "method_not_allowed", headers: { allow: match.allowed.join(", ") } }))
    exchange.route = match.route.path
    if (isStopping() && match.route.whileStopping !== true)
      return Effect.fail(new Refusal({ code: "service_unavailable", message: "The service is stopping." }))
    return match.route.handle(exchange, match.id)
  }

  const answer = (exchange: Exchange): Effect.Effect<Reply> =>
    Effect.matchCauseEffect(
      Effect.suspend(() => dispatch(exchange)),
      {
        onSuccess: Effect.succeed,
        onFailure: (cause) =>
          Effect.map(refusalOf(exchange, cause), (refusal) => refusalReply(refusal, exchange.requestId)),
      },
    )

  return Effect.gen(function* () {
    const request = yield* HttpServerRequest.HttpServerRequest
    const exchange = new Exchange(
      yield* newRequestId,
      // The server speaks HTTP/1 only.
      NodeHttpServerRequest.toIncomingMessage(request) as IncomingMessage,
      NodeHttpServerRequest.toServerResponse(request) as ServerResponse,
    )
    return toResponse(exchange, yield* answer(exchange), isStopping())
  })
}

/** What to say about a failure, after it was logged and what is left of the body was let pass. */
const refusalOf = Effect.fnUntraced(function* (exchange: Exchange, cause: Cause.Cause<unknown>) {
  const failure = Cause.squash(cause)
  const about = { requestId: exchange.requestId, method: exchange.method, route: exchange.route }
  // Nobody reads this one.
  if (failure instanceof BodyBroken) return new Refusal({ code: "malformed_request" })
  if (failure instanceof Refusal) {
    if (failure.cause !== undefined) yield* Effect.logWarning(`answered ${failure.code}`, about, failure.cause)
    // Who stalled once is not waited for again.
    if (!failure.code.endsWith("_timeout")) yield* discardBody(exchange, exchange.discardLimit)
    return failure
  }
  // Stopped by the end of the service; a client that went away reads nothing anyway.
  if (Cause.hasInterruptsOnly(cause)) return new Refusal({ code: "service_unavailable" })
  yield* Effect.logError("a request failed unexpectedly", about, cause)
  yield* discardBody(exchange, exchange.discardLimit)
  return new Refusal({ code: "internal_error" })
})
