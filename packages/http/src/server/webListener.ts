import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { CallerSpan } from "@kiln/core/effect"
import type { App } from "./app.ts"
import { PieceBudget } from "./PieceBudget.ts"
import type { Reply } from "./Exchange.ts"
import { WebSource } from "./WebSource.ts"

export type WebListener = (request: Request, remoteAddress?: string) => Promise<Response>

/** Handles web-standard requests, each in a fiber that ends with the scope, or when the request is aborted. */
export const webListener = (app: App, scope: Scope.Scope): Effect.Effect<WebListener> =>
  Effect.map(Effect.context(), (context) => {
    const runFork = Effect.runForkWith(context)
    const pieces = new PieceBudget()
    const callerSpan = Context.get(context, CallerSpan)
    return async (request, remoteAddress) => {
      let reply = unheard
      const source = new WebSource(request, remoteAddress, pieces, callerSpan?.())
      // As on Node's server: only parts marked as interruptible can be interrupted, so that a client cannot stop a write halfway.
      const answering = Effect.uninterruptible(Effect.map(app.answer(source), (answer) => void (reply = answer)))
      const answer = runFork(answering)
      // Later requests are rejected; in a closed scope they would get no response at all.
      const fiber = app.shutdown.isStopping ? answer : Fiber.runIn(answer, scope)
      const abort = () => fiber.interruptUnsafe()
      if (request.signal.aborted) abort()
      request.signal.addEventListener("abort", abort, { once: true })
      await new Promise((resolve) => fiber.addObserver(resolve))
      request.signal.removeEventListener("abort", abort)
      source.abandon()
      return toWebResponse(request.method, reply)
    }
  })

/** The reply to a request that was aborted before it started. */
const unheard: Reply = { status: 503, headers: {}, body: undefined }

const toWebResponse = (method: string, { body, headers, status }: Reply): Response => {
  if (body === undefined) return new Response(null, { status, headers })
  if (Stream.isStream(body)) return new Response(Stream.toReadableStream(body), { status, headers })
  return new Response(method === "HEAD" ? null : body, { status, headers })
}
