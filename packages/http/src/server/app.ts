import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { IdGenerator } from "@kiln/core/ports"
import type { AnsweredRequest, HttpObserver } from "../HttpObserver.ts"
import { BodyBroken, discardBody } from "./body.ts"
import { corsHeaders } from "./cors.ts"
import { describePaths } from "./describePaths.ts"
import { addressOf } from "./limitAddresses.ts"
import { Exchange, isUnder, localTarget, Refusal, refusalReply, type Reply } from "./Exchange.ts"
import type { RequestSource } from "./RequestSource.ts"
import { inRequestSpan } from "./requestSpan.ts"
import type { TrustedProxies } from "../wire/ClientAddress.ts"

/** Handles a request. `id` is the value of the path's placeholder; empty without one. The values of two are joined by a slash. */
export type Handler = (exchange: Exchange, id: string, clock: Clock.Clock) => Effect.Effect<Reply, Refusal | BodyBroken>

export interface Route {
  readonly method: string
  /** Path, in which segments that begin with a colon are placeholders: `/v1/jobs/:id/data`. */
  readonly path: string
  readonly handle: Handler
  /** Whether other origins may call it. */
  readonly cors?: boolean
  /** Whether it responds even during shutdown. */
  readonly whileStopping?: boolean
}

export type Match =
  | { readonly _tag: "Found"; readonly route: Route; readonly id: string; readonly cors: boolean }
  | { readonly _tag: "WrongMethod"; readonly allowed: ReadonlyArray<string>; readonly cors: boolean }
  | { readonly _tag: "NotFound" }

interface Node {
  readonly literals: Map<string, Node>
  placeholder: Node | undefined
  readonly routes: Map<string, Route>
}

const node = (): Node => ({ literals: new Map(), placeholder: undefined, routes: new Map() })

/**
 * Finds routes by exact comparison of path segments as sent: case-sensitive, without decoding or extra slashes. A
 * placeholder matches one non-empty segment.
 */
export class Router {
  readonly routes: ReadonlyArray<Route>
  readonly #root = node()

  constructor(routes: ReadonlyArray<Route>) {
    this.routes = routes
    for (const route of routes) {
      const end = route.path.split("/").reduce((at, segment) => {
        if (segment.startsWith(":")) return (at.placeholder ??= node())
        const next = at.literals.get(segment) ?? node()
        at.literals.set(segment, next)
        return next
      }, this.#root)
      if (end.routes.has(route.method)) throw new Error(`duplicate route: ${route.method} ${route.path}`)
      end.routes.set(route.method, route)
    }
  }

  match(method: string, path: string): Match {
    let at: Node | undefined = this.#root
    let id = ""
    for (const segment of path.split("/")) {
      const literal: Node | undefined = at.literals.get(segment)
      if (literal === undefined && segment !== "") id = id === "" ? segment : `${id}/${segment}`
      at = literal ?? (segment === "" ? undefined : at.placeholder)
      if (at === undefined) return { _tag: "NotFound" }
    }
    const route = at.routes.get(method)
    if (route !== undefined) return { _tag: "Found", route, id, cors: route.cors === true }
    if (at.routes.size === 0) return { _tag: "NotFound" }
    const routes = [...at.routes.values()]
    return {
      _tag: "WrongMethod",
      // OPTIONS exists only for preflights and is not a method of the resource.
      allowed: routes.map((known) => known.method).filter((known) => known !== "OPTIONS"),
      cors: routes.some((known) => known.cors === true),
    }
  }
}

/** The progress of a shutdown. State instead of functions, because every request looks at it. */
export interface Shutdown {
  /** Set at its end: new requests are rejected. */
  isStopping: boolean
  /** Set at its beginning: each response ends its connection. */
  closesConnections: boolean
}

/** Responds to requests of any server. */
export interface App {
  readonly answer: (source: RequestSource) => Effect.Effect<Reply>
  readonly shutdown: Readonly<Shutdown>
  /** Returns whether a request belongs to the service, for servers that also serve other things. */
  readonly isOurs: (source: RequestSource) => boolean
}

export interface AppOptions {
  readonly router: Router
  readonly ids: Pick<IdGenerator["Service"], "next">
  readonly shutdown: Readonly<Shutdown>
  /** Proxies whose `X-Forwarded-For` names the client to the observer. */
  readonly trustedProxies: TrustedProxies
  /** Observes every request. */
  readonly observer: HttpObserver | undefined
  /** Prefix of request paths in front of the routes; may be empty. */
  readonly prefix: string
}

/** Creates the app: finds the route of a request, and turns its outcome into a reply with the common headers. */
export const makeApp = (options: AppOptions): App => {
  const { ids, observer, prefix, router, shutdown, trustedProxies } = options
  const routes = router.routes.map(({ path }) => path)
  const messages = describePaths(routes, prefix)
  const dispatch = (exchange: Exchange, clock: Clock.Clock) => {
    if (!exchange.source.hasOneHost) return Effect.fail(new Refusal({ code: "malformed_request" }))
    const match = router.match(exchange.method, exchange.path)
    if (match._tag === "NotFound")
      return Effect.fail(new Refusal({ code: "not_found", message: messages.notFound(exchange.path) }))
    if (match.cors) Object.assign(exchange.responseHeaders, corsHeaders)
    if (match._tag === "WrongMethod")
      return Effect.fail(
        new Refusal({
          code: "method_not_allowed",
          message: messages.wrongMethod(match.allowed),
          headers: { allow: match.allowed.join(", ") },
        }),
      )
    exchange.route = match.route.path
    exchange.placeholder = match.id
    if (shutdown.isStopping && match.route.whileStopping !== true)
      return Effect.fail(
        new Refusal({ code: "service_unavailable", message: "The service is shutting down. Repeat the request." }),
      )
    return match.route.handle(exchange, match.id, clock)
  }

  /** Adds the headers of every response, and the length of a body that is not streamed. */
  const complete = (exchange: Exchange, { body, headers, status }: Reply): Reply => {
    const all = Object.assign(exchange.responseHeaders, headers)
    if (typeof body === "string" || body instanceof Uint8Array) all["content-length"] = String(Buffer.byteLength(body))
    return { status, headers: all, body }
  }

  /** Makes the reply complete, and tells the observer of it. */
  const finish = (exchange: Exchange, clock: Clock.Clock, beganAt: bigint, plain: Reply): Effect.Effect<Reply> => {
    const reply = complete(exchange, plain)
    const tookMs = () => Number(clock.monotonicTimeNanosUnsafe() - beganAt) / 1e6
    observer?.answered(answeredOf(exchange, reply, tookMs(), trustedProxies))
    return Effect.succeed(reply)
  }

  // Few steps and no generator, because every request passes here, and thousands may wait in it.
  const answerIn = (exchange: Exchange): Effect.Effect<Reply> =>
    Clock.clockWith((clock) => {
      const beganAt = clock.monotonicTimeNanosUnsafe()
      observer?.began()
      return Effect.matchCauseEffect(
        Effect.suspend(() => dispatch(exchange, clock)),
        {
          onSuccess: (reply) => finish(exchange, clock, beganAt, reply),
          onFailure: (cause) =>
            Effect.flatMap(refusalOf(exchange, cause), (refusal) => {
              exchange.refusalCode = refusal.code
              return finish(exchange, clock, beganAt, refusalReply(refusal, exchange.requestId))
            }),
        },
      )
    })

  const routeOf = ({ method, path }: Exchange): string | undefined => {
    const match = router.match(method, path)
    return match._tag === "Found" ? match.route.path : undefined
  }
  const answer = (source: RequestSource): Effect.Effect<Reply> =>
    Effect.withFiber(({ cache }) => {
      const exchange = new Exchange(givenRequestId(source) ?? ids.next("req"), source, prefix)
      const answered = answerIn(exchange)
      return cache.tracer === undefined ? answered : inRequestSpan(exchange, routeOf(exchange), answered)
    })

  const isOurs = (source: RequestSource): boolean => {
    const local = localTarget(source.target)
    // Under a prefix, all paths belong to the service; without one, only its routes.
    if (prefix !== "") return isUnder(prefix, local)
    return router.match(source.method, local.replace(/\?.*$/s, ""))._tag !== "NotFound"
  }

  return { answer, shutdown, isOurs }
}

/** What an observer is told of a request. */
const answeredOf = (
  exchange: Exchange,
  { headers, status }: Reply,
  durationMs: number,
  trustedProxies: TrustedProxies,
): AnsweredRequest => {
  const length = headers["content-length"]
  return {
    requestId: exchange.requestId,
    method: exchange.method,
    route: exchange.route,
    path: exchange.path,
    status,
    code: exchange.refusalCode,
    durationMs,
    receivedBytes: exchange.bytesRead,
    sentBytes: length === undefined ? undefined : Number(length),
    remoteAddress: exchange.source.remoteAddress && addressOf(exchange, trustedProxies),
    keyId: exchange.keyId,
    projectId: exchange.projectId,
    jobId: exchange.jobId,
  }
}

/** The fields of a log entry about a request. */
const aboutRequest = ({ jobId, method, projectId, requestId, route }: Exchange) => ({
  requestId,
  method,
  route,
  ...(projectId !== undefined && { projectId }),
  ...(jobId !== undefined && { jobId }),
})

/** Logs a failure, discards the rest of the body, and returns the error to respond with. */
const refusalOf = Effect.fnUntraced(function* (exchange: Exchange, cause: Cause.Cause<unknown>) {
  const failure = Cause.squash(cause)
  const about = aboutRequest(exchange)
  // The client is gone, so this response is not read.
  if (failure instanceof BodyBroken) return new Refusal({ code: "malformed_request" })
  if (failure instanceof Refusal) {
    if (failure.cause !== undefined)
      yield* Effect.annotateLogs(Effect.logWarning(`responded with ${failure.code}`, failure.cause), about)
    // A sender that stalled once gets no second wait.
    if (!failure.code.endsWith("_timeout")) yield* discardBody(exchange, exchange.discardLimit)
    return failure
  }
  // Interrupted by shutdown; a client that has disconnected does not read the response.
  if (Cause.hasInterruptsOnly(cause)) return new Refusal({ code: "service_unavailable" })
  yield* Effect.annotateLogs(Effect.logError("request failed unexpectedly", cause), about)
  yield* discardBody(exchange, exchange.discardLimit)
  return new Refusal({ code: "internal_error" })
})

/** Identifiers that proxies and callers usually send: UUIDs, hexadecimal digests, ULIDs. Safe in logs, headers and JSON. */
const ACCEPTED = /^[0-9A-Za-z](?:[0-9A-Za-z._-]{6,126})[0-9A-Za-z]$/

/** Returns the request's own `X-Request-Id`; `undefined` if it has none, several, or one that is not acceptable. */
const givenRequestId = (source: RequestSource): string | undefined => {
  const values = source.header("x-request-id")
  const [value] = values ?? []
  return value !== undefined && values?.length === 1 && ACCEPTED.test(value) ? value : undefined
}
