import * as Effect from "effect/Effect"
import * as Tracer from "effect/Tracer"
import { parseTraceparent } from "@kiln/core/domain"
import type { Exchange, Reply } from "./Exchange.ts"

const methods = new Set(["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"])

/** Returns a method that may name a series or a span. A client may send any token. */
export const knownMethod = (method: string): string => (methods.has(method) ? method : "OTHER")

/** Requests for health are frequent and tell nothing. */
const untraced = new Set<string | undefined>(["/healthz", "/readyz"])

const parentOf = (exchange: Exchange): Tracer.AnySpan | undefined => {
  const { hostSpan } = exchange.source
  if (hostSpan !== undefined) return hostSpan
  const text = exchange.singleHeader("traceparent")
  const trace = text === undefined ? undefined : parseTraceparent(text)
  return trace && Tracer.externalSpan(trace)
}

/**
 * Answers in a span, below the span of the host that kiln is mounted in, or as part of the caller's trace if the request has a
 * `traceparent`. The span is named by method and route.
 * Query, headers and body are not in it, because they contain signatures, keys and texts.
 */
export const inRequestSpan = (
  exchange: Exchange,
  route: string | undefined,
  answer: Effect.Effect<Reply>,
): Effect.Effect<Reply> => {
  if (untraced.has(route)) return answer
  const method = knownMethod(exchange.method)
  const parent = parentOf(exchange)
  const options = { kind: "server" as const, ...(parent === undefined ? { root: true } : { parent }) }
  return Effect.useSpan(route === undefined ? method : `${method} ${route}`, options, (span) => {
    span.attribute("http.request.method", method)
    span.attribute("kiln.request.id", exchange.requestId)
    if (route !== undefined) span.attribute("http.route", route)
    return Effect.map(Effect.withParentSpan(answer, span), (reply) => {
      span.attribute("http.response.status_code", reply.status)
      if (exchange.projectId !== undefined) span.attribute("kiln.project.id", exchange.projectId)
      if (exchange.jobId !== undefined) span.attribute("kiln.job.id", exchange.jobId)
      return reply
    })
  })
}
