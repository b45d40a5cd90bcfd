import { Effect, Fiber, type Scope, Stream } from "effect"
import type { App } from "./app.ts"
import { PieceBudget } from "./PieceBudget.ts"
import type { Reply } from "./Reply.ts"
import { WebSource } from "./WebSource.ts"

export type WebListener = (request: Request, remoteAddress?: string) => Promise<Response>

/** Answers web-standard requests, each in a fiber that ends with the scope, or when the request is aborted. */
export const webListener = (app: App, scope: Scope.Scope): Effect.Effect<WebListener> =>
  Effect.map(Effect.context(), (context) => {
    const runFork = Effect.runForkWith(context)
    const pieces = new PieceBudget()
    return async (request, remoteAddress) => {
      let reply = unheard
      const source = new WebSource(request, remoteAddress, pieces)
      // As on Node's server: what is not marked as interruptible is done to its end, or a client could cut it in two.
      const answering = Effect.uninterruptible(Effect.map(app.answer(source), (answer) => void (reply = answer)))
      const answer = runFork(answering)
      // What comes later is refused; in a scope that has ended it would get no answer at all.
      const fiber = app.isStopping() ? answer : Fiber.runIn(answer, scope)
      const abort = () => fiber.interruptUnsafe()
      if (request.signal.aborted) abort()
      request.signal.addEventListener("abort", abort, { once: true })
      await new Promise((resolve) => fiber.addObserver(resolve))
      request.signal.removeEventListener("abort", abort)
      source.abandon()
      return toWebResponse(request.method, reply)
    }
  })

/** Of a request that was aborted before it was begun. */
const unheard: Reply = { status: 503, headers: {}, body: undefined }

const toWebResponse = (method: string, { body, headers, status }: Reply): Response => {
  if (body === undefined) return new Response(null, { status, headers })
  if (Stream.isStream(body)) return new Response(Stream.toReadableStream(body), { status, headers })
  const length = String(Buffer.byteLength(body))
  return new Response(method === "HEAD" ? null : body, { status, headers: { ...headers, "content-length": length } })
}
