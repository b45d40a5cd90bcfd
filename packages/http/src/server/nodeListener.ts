import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as HttpMiddleware from "effect/http/HttpMiddleware"
import * as HttpServerRequest from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { CallerSpan } from "@kiln/core/effect"
import type { App } from "./app.ts"
import { makeInTurn } from "./inTurn.ts"
import type { NodeHandler, NodeListener, NodeRequest, NodeResponse } from "./NodeExchange.ts"
import { gatherBody, hasBody, isShort, keepHostSpan, NodeSource, takeBody } from "./NodeSource.ts"
import { PieceBudget } from "./PieceBudget.ts"
import type { Reply } from "./Exchange.ts"

/**
 * Handles requests of Node's server, each in a fiber that ends with the scope, or when its client disconnects.
 *
 * Most replies are ready at once or after one commit, and are written here. Effect's handler writes the others: streams, HTTP/2,
 * and replies before the end of the request's body.
 */
export const nodeListener = Effect.fnUntraced(function* (app: App, scope: Scope.Scope): Effect.fn.Return<NodeHandler> {
  const context = yield* Effect.context()
  const run = Effect.runForkWith(context)
  const callerSpan = Context.get(context, CallerSpan)
  const ready = new WeakMap<NodeRequest, Reply>()
  const answering = answerNode(app, ready)
  // `app` has a span of its own: that of Effect's handler would name the query, which contains signatures.
  const handler = (within: Scope.Scope) =>
    Effect.provideService(
      NodeHttpServer.makeHandler(answering, { scope: within }),
      HttpMiddleware.TracerDisabledWhen,
      () => true,
    )
  const inTime = yield* handler(scope)
  // Later requests are rejected; in a closed scope they would get no response at all.
  const late = yield* handler(Scope.makeUnsafe())
  const handOver: NodeListener = (request, response) => {
    keepListening(request, response)
    ;(app.shutdown.isStopping ? late : inTime)(request, response)
  }

  const send = (source: NodeSource, exit: Exit.Exit<Reply>): void => {
    const reply = closing(app, source, Exit.isSuccess(exit) ? exit.value : broken)
    try {
      if (writeWhole(source, reply)) return
    } catch {
      // Node rejects a header; Effect's handler reports it and sends a 500.
    }
    ready.set(source.message, reply)
    handOver(source.message, source.response)
  }

  const { sendInTurn, sendNext } = makeSendTogether(send)
  const waiting = waitingIn(scope, run)
  const answerSource = (source: NodeSource): void => {
    const { message: request, response } = source
    // Only parts marked as interruptible can be interrupted, so that a client cannot stop a write halfway.
    const fiber = run(app.answer(source), { uninterruptible: true })
    const exit = fiber.pollUnsafe()
    if (exit !== undefined) return sendInTurn(source, exit)
    keepListening(request, response)
    if (!app.shutdown.isStopping) waiting.add(fiber)
    response.on("close", () => {
      if (!response.writableEnded) fiber.interruptUnsafe()
    })
    fiber.addObserver((ended) => {
      waiting.delete(fiber)
      sendNext(source, ended)
    })
  }

  const answer: NodeListener = (request, response) => answerSource(new NodeSource(request, response))
  const answerBare: NodeListener = (request, response) => answerSource(new NodeSource(request, response, false))

  const inTurn = makeInTurn()
  const pieces = new PieceBudget()
  const gather: NodeListener = (request, response) => {
    keepListening(request, response)
    gatherBody(request, response, pieces)
  }
  const beginShort: NodeListener = (request, response) => {
    if (!takeBody(request)) gather(request, response)
    answer(request, response)
  }
  // Node emits a request before it parses the bytes that arrived with it.
  const beginLater = makeNextTurn(beginShort)
  return (request, response, next) => {
    if (next !== undefined && !app.isOurs(new NodeSource(request, response))) return next()
    keepHostSpan(request, callerSpan?.())
    const isNext = isFirst(response)
    if (!hasBody(request)) return isNext ? answerBare(request, response) : inTurn(request, response, answerBare)
    if (isShort(request) && isNext) return beginLater(request, response)
    gather(request, response)
    if (isNext) answer(request, response)
    else inTurn(request, response, answer)
  }
})

/** Returns whether all earlier responses of the connection were sent: only then does Node assign a response its socket. */
const isFirst = (response: NodeResponse): boolean => response.socket !== null

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

/**
 * Returns a set for the fibers of requests, which the scope interrupts when it closes. They share a finalizer, because thousands may wait.
 */
const waitingIn = (scope: Scope.Scope, run: (effect: Effect.Effect<void>) => unknown) => {
  const fibers = new Set<Fiber.Fiber<Reply>>()
  const interruptAll = Effect.suspend(() => Fiber.interruptAll(fibers))
  let isAdded = false
  return {
    add: (fiber: Fiber.Fiber<Reply>): void => {
      fibers.add(fiber)
      // Not before the first request: finalizers run in reverse order, and the server waits for its requests.
      if (!isAdded) run(Scope.addFinalizer(scope, interruptAll))
      isAdded = true
    },
    delete: (fiber: Fiber.Fiber<Reply>): void => void fibers.delete(fiber),
  }
}

type Send = (source: NodeSource, exit: Exit.Exit<Reply>) => void

/**
 * Sends replies together: those of one turn of the event loop at its end, those of one commit after the last of them is ready.
 * Otherwise each write would wake the reader, such as a proxy on the same machine, which sleeps again before the next: that costs this
 * process more than the write.
 */
const makeSendTogether = (send: Send): { readonly sendInTurn: Send; readonly sendNext: Send } => {
  let due: Array<Parameters<Send>> = []
  const sendDue = (): void => {
    const sent = due
    due = []
    for (const [source, exit] of sent) send(source, exit)
  }
  return {
    sendInTurn: (source, exit) => {
      if (due.push([source, exit]) === 1) setImmediate(sendDue)
    },
    sendNext: (source, exit) => {
      if (due.push([source, exit]) === 1) process.nextTick(sendDue)
    },
  }
}

/**
 * Returns a function that calls `begin` for its arguments once their turn of the event loop is over, all of a turn together. Those of
 * the turn after it are called before anything that the first ones have scheduled for then, such as the commit that both share.
 */
const makeNextTurn = (begin: NodeListener): NodeListener => {
  let arrived: Array<Parameters<NodeListener>> = []
  let isScheduled = false
  const schedule = (): void => {
    if (!isScheduled) setImmediate(beginAll)
    isScheduled = true
  }
  const beginAll = (): void => {
    isScheduled = false
    if (arrived.length === 0) return
    schedule()
    const begun = arrived
    arrived = []
    for (const [request, response] of begun) begin(request, response)
  }
  return (request, response) => {
    arrived.push([request, response])
    schedule()
  }
}

/** Sent if a request failed without a reply. */
const broken: Reply = { status: 500, headers: {}, body: undefined }

const answerNode = (app: App, ready: WeakMap<NodeRequest, Reply>) =>
  Effect.flatMap(HttpServerRequest.HttpServerRequest, (request) => {
    const message = NodeHttpServerRequest.toIncomingMessage(request)
    const reply = ready.get(message)
    if (reply !== undefined) return Effect.succeed(toNodeResponse(reply))
    const source = new NodeSource(message, NodeHttpServerRequest.toServerResponse(request))
    return Effect.map(app.answer(source), (answered) => toNodeResponse(closing(app, source, answered)))
  })

/** Adds `Connection: close` if the connection ends with this response. */
const closing = (app: App, source: NodeSource, reply: Reply): Reply =>
  closesAfter(app, source, reply) ? { ...reply, headers: { ...reply.headers, connection: "close" } } : reply

/**
 * Returns whether the connection ends with this response. The rest of a request that timed out would occupy it. Node stops
 * reading from a connection whose client requested an upgrade and got a response instead, so the next request on it would
 * never be read. An `Upgrade` that is not listed in `Connection` has no effect.
 */
const closesAfter = (app: App, source: NodeSource, { status }: Reply): boolean =>
  app.shutdown.closesConnections || (source.message.httpVersionMajor === 1 && (status === 408 || asksToUpgrade(source)))

const asksToUpgrade = (source: NodeSource): boolean =>
  source.header("upgrade") !== undefined &&
  (source.header("connection") ?? []).some((line) =>
    line.split(",").some((option) => option.trim().toLowerCase() === "upgrade"),
  )

const toNodeResponse = ({ body, headers, status }: Reply): HttpServerResponse.HttpServerResponse => {
  const options = { status, headers }
  if (body === undefined) return HttpServerResponse.empty(options)
  if (Stream.isStream(body)) return HttpServerResponse.stream(body, options)
  const whole = { ...options, contentType: headers["content-type"] ?? "text/plain" }
  if (typeof body === "string") return HttpServerResponse.text(body, whole)
  if (body.length <= sliceBytes) return HttpServerResponse.uint8Array(body, whole)
  return HttpServerResponse.stream(inSlices(body), { ...whole, contentLength: body.length })
}

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

/** Maximum number of bytes per write, because a system call that copies megabytes blocks other requests for many milliseconds. */
const sliceBytes = 65_536

/**
 * Writes a short reply in one step. False, with nothing written, if the reply needs more than that: a stream, a large body, an
 * HTTP/2 response, or a request whose body is still arriving.
 */
const writeWhole = ({ isReceived, message, response }: NodeSource, { body, headers, status }: Reply): boolean => {
  if ("stream" in response || !isReceived || response.destroyed || response.writableEnded) return false
  if (body === undefined) response.writeHead(status, headers).end()
  else if (typeof body === "string" || (body instanceof Uint8Array && body.length <= sliceBytes)) {
    response.writeHead(status, headers)
    if (message.method === "HEAD") response.end()
    else response.end(body)
  } else return false
  return true
}
