import { Cause, Effect } from "effect"
import type { RequestId } from "@kiln/core/domain"
import { BodyBroken, discardBody } from "./body.ts"
import { corsHeaders } from "./cors.ts"
import { Exchange, isUnder, localTarget } from "./Exchange.ts"
import { Refusal } from "./Refusal.ts"
import { refusalReply, type Reply } from "./Reply.ts"
import type { RequestSource } from "./RequestSource.ts"
import type { Router } from "./Router.ts"

/** Answers one request, whatever server it came from. */
export interface App {
  readonly answer: (source: RequestSource) => Effect.Effect<Reply>
  /** The service is stopping: what begins now is not answered any more. */
  readonly isStopping: () => boolean
  /** Whether a request is the service's to answer, for servers that have other things to do as well. */
  readonly isOurs: (source: RequestSource) => boolean
}

export interface AppOptions {
  readonly router: Router
  readonly newRequestId: Effect.Effect<RequestId>
  readonly isStopping: () => boolean
  /** What the paths of requests begin with, in front of the routes' own; empty for none. */
  readonly prefix: string
}

/** One request, one reply: finds the route, and turns whatever comes of it into a reply with the headers all have. */
export const makeApp = ({ isStopping, newRequestId, prefix, router }: AppOptions): App => {
  const dispatch = (exchange: Exchange) => {
    if (!exchange.source.hasOneHost) return Effect.fail(new Refusal({ code: "malformed_request" }))
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

  const replyTo = (exchange: Exchange): Effect.Effect<Reply> =>
    Effect.matchCauseEffect(
      Effect.suspend(() => dispatch(exchange)),
      {
        onSuccess: Effect.succeed,
        onFailure: (cause) =>
          Effect.map(refusalOf(exchange, cause), (refusal) => refusalReply(refusal, exchange.requestId)),
      },
    )

  const answer = Effect.fnUntraced(function* (source: RequestSource): Effect.fn.Return<Reply> {
    const exchange = new Exchange(yield* newRequestId, source, prefix)
    const reply = yield* replyTo(exchange)
    const headers = {
      "x-request-id": exchange.requestId,
      "x-content-type-options": "nosniff",
      ...exchange.responseHeaders,
      ...reply.headers,
    }
    return { ...reply, headers }
  })

  const isOurs = (source: RequestSource): boolean => {
    const local = localTarget(source.target)
    // A prefix is the service's alone; without one only its routes are.
    if (prefix !== "") return isUnder(prefix, local)
    return router.match(source.method, local.replace(/\?.*$/s, ""))._tag !== "NotFound"
  }

  return { answer, isStopping, isOurs }
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
