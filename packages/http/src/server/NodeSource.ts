import * as Effect from "effect/Effect"
import type * as Tracer from "effect/Tracer"
import { markReleasable } from "@kiln/core/ports"
import { bodyLimitMs } from "./body.ts"
import { BodyGatherer, type Valve } from "./BodyGatherer.ts"
import { maxJsonBytes } from "./Exchange.ts"
import { ownSocket, ReadingHold } from "./holdReading.ts"
import type { NodeRequest, NodeResponse } from "./NodeExchange.ts"
import type { PieceBudget } from "./PieceBudget.ts"
import { type BodyEnd, nothingToRead, type ReadOptions, type RequestSource } from "./RequestSource.ts"

/** Returns the full target: Express and similar frameworks strip the mount path from `url` and keep `originalUrl`. */
const targetOf = (message: NodeRequest): string =>
  "originalUrl" in message && typeof message.originalUrl === "string" ? message.originalUrl : (message.url ?? "")

/** Milliseconds an HTTP/2 client gets to read a response that was sent before the end of its body. */
const lingerMs = 500

/** A short body that arrived as a whole. */
class ArrivedBody {
  readonly isDrained = true
  #rest: Uint8Array | undefined

  constructor(bytes: Uint8Array) {
    this.#rest = bytes
  }

  read(take: (piece: Uint8Array) => boolean): Effect.Effect<BodyEnd> {
    return Effect.sync(() => {
      const piece = this.#rest
      this.#rest = undefined
      return piece === undefined || take(piece) ? "complete" : "stopped"
    })
  }
}

/** The bodies of requests that have one. */
const bodies = new WeakMap<NodeRequest, BodyGatherer | ArrivedBody>()

// Requests whose sender waits for `100 Continue` before it sends the body. A final response without it spares the sender
// the whole body, so `100 Continue` is sent only when the body is first read.
const waitingToContinue = new WeakSet<NodeRequest>()

/** Records a request with `Expect: 100-continue`. */
export const expectContinue = (request: NodeRequest): void => void waitingToContinue.add(request)

/** Returns whether the sender still waits. Its body will not arrive, and Node closes the connection after the response. */
const awaitsContinue = (request: NodeRequest): boolean => waitingToContinue.has(request)

/** Sends `100 Continue`, once. */
const sendContinue = (request: NodeRequest, response: NodeResponse): void => {
  if (waitingToContinue.delete(request) && !response.headersSent && !response.destroyed) response.writeContinue()
}

/** Returns whether a body may arrive together with its request, which is worth a turn of the event loop to find out. */
export const isShort = (message: NodeRequest): boolean => {
  const length = announcedLength(message)
  return length > 0 && length <= maxJsonBytes && !awaitsContinue(message)
}

/** Takes a short body that has arrived as a whole. False, with nothing taken, if part of it is missing or something else reads it. */
export const takeBody = (message: NodeRequest): boolean => {
  const isUntouched = message.readableFlowing === null && !message.readableDidRead && message.readableEncoding === null
  if (!isUntouched || !message.complete || message.readableLength !== announcedLength(message)) return false
  bodies.set(message, new ArrivedBody(message.read() as Uint8Array))
  return true
}

/** Starts to gather a body, so that its pieces do not pile up while the request waits; ends with the response. */
export const gatherBody = (message: NodeRequest, response: NodeResponse, budget: PieceBudget): void => {
  if (!hasBody(message) || message.readableDidRead) return
  const body = new BodyGatherer(budget, valveOf(message))
  bodies.set(message, body)
  let received = 0
  const onData = (piece: Uint8Array) => {
    received += piece.length
    if (isOurs(message)) markReleasable(piece)
    body.push(piece)
  }
  // HTTP/2 ends the body of an aborted request as if it were complete.
  const onEnd = () =>
    body.finish(message.aborted || received < Number(message.headers["content-length"] ?? 0) ? "broken" : "complete")
  const onBroken = () => body.finish("broken")
  message.on("data", onData).on("end", onEnd)
  message.on("aborted", onBroken).on("error", onBroken).on("close", onBroken)
  response.on("close", () => body.abandon())
  // An HTTP/2 stream would receive the rest of a rejected body.
  if (!("stream" in message))
    response.on("finish", () => {
      body.abandon()
      if (!message.complete) limitRest(message)
    })
  else {
    const { stream } = message
    stream.once("finish", () => {
      if (body.isDrained) return
      // Clients that are still sending treat an earlier reset as a lost response.
      const close = setTimeout(() => stream.close(), lingerMs)
      stream.once("close", () => clearTimeout(close))
    })
  }
  if (message.destroyed) onBroken()
}

/** Closes the connection unless the rest of the body arrives in time after the response. */
const limitRest = (message: NodeRequest): void => {
  const socket = ownSocket(message)
  if (socket === undefined) return
  const cut = setTimeout(() => socket.destroy(), bodyLimitMs)
  const end = () => {
    clearTimeout(cut)
    socket.off("close", end)
  }
  message.once("end", end)
  socket.once("close", end)
}

/** Returns whether the pieces of a body are kiln's alone: each is a buffer of its own in HTTP/1, and no other program listens for them. */
const isOurs = (message: NodeRequest): boolean => !("stream" in message) && message.listenerCount("data") === 1

const hostSpans = new WeakMap<NodeRequest, Tracer.AnySpan>()

/** Keeps the host's span for the source of a request. Only now is it active: requests that arrive together begin in a later turn. */
export const keepHostSpan = (message: NodeRequest, span: Tracer.AnySpan | undefined): void => {
  if (span !== undefined) hostSpans.set(message, span)
}

/** A request of Node's own server. Does not read the body; `gatherBody` does. */
export class NodeSource implements RequestSource {
  readonly message: NodeRequest
  readonly response: NodeResponse
  readonly target: string
  readonly hostSpan: Tracer.AnySpan | undefined
  readonly isBodyTaken: boolean
  readonly hasArrived: boolean
  readonly #body: BodyGatherer | ArrivedBody | undefined

  constructor(message: NodeRequest, response: NodeResponse, expectsBody = hasBody(message)) {
    this.message = message
    this.response = response
    this.target = targetOf(message)
    this.hostSpan = hostSpans.get(message)
    this.#body = expectsBody ? bodies.get(message) : undefined
    this.hasArrived = !expectsBody || this.#body instanceof ArrivedBody
    this.isBodyTaken = expectsBody && this.#body === undefined && message.readableDidRead
  }

  get remoteAddress(): string | undefined {
    return addressOf(this.message)
  }

  get method(): string {
    return this.message.method ?? ""
  }

  get hasOneHost(): boolean {
    const hosts = this.header("host")?.length ?? 0
    return hosts === 1 || (hosts === 0 && this.message.httpVersion !== "1.1")
  }

  header(lowerCaseName: string): ReadonlyArray<string> | undefined {
    return distinct(this.message.rawHeaders, lowerCaseName)
  }

  /** True once the request has arrived completely. */
  get isReceived(): boolean {
    return this.hasArrived || this.message.complete
  }

  hasMoreBody(): boolean {
    return this.#body !== undefined && !this.#body.isDrained && !awaitsContinue(this.message)
  }

  sendContinue(): void {
    sendContinue(this.message, this.response)
  }

  holdOpen(): void {
    const socket = ownSocket(this.message)
    if (socket === undefined) return
    const idleMs = socket.timeout ?? 0
    socket.setTimeout(0)
    this.response.once("finish", () => socket.setTimeout(idleMs))
  }

  readBody(take: (piece: Uint8Array) => boolean, options?: ReadOptions): Effect.Effect<BodyEnd> {
    return this.#body?.read(take, options) ?? nothingToRead
  }
}

/** Pauses the connection in HTTP/1, because pausing only the request fills Node's own buffer. HTTP/2 has flow control. */
const valveOf = (message: NodeRequest): Valve => {
  const socket = ownSocket(message)
  // Ticks and microtasks run between any two pieces of one read.
  const defer = (run: () => void) => void setImmediate(run)
  if (socket === undefined)
    return {
      stop: () => void message.pause(),
      go: () => void message.resume(),
      cut: () => void message.destroy(),
      defer,
    }
  const hold = new ReadingHold(socket)
  return { stop: () => hold.hold(), go: () => hold.release(), cut: () => void socket.destroy(), defer }
}

/** Returns the values of a header as sent, one per line. Only a few are looked up per request, so no table is built. */
const distinct = (rawHeaders: ReadonlyArray<string>, lowerCaseName: string): ReadonlyArray<string> | undefined => {
  let values: Array<string> | undefined
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    if (!isNamed(rawHeaders[at] ?? "", lowerCaseName)) continue
    const value = rawHeaders[at + 1] ?? ""
    if (values === undefined) values = [value]
    else values.push(value)
  }
  return values
}

/** Returns the remote address; `undefined` if unknown, such as for an HTTP/2 session that has ended. */
const addressOf = (message: NodeRequest): string | undefined => {
  try {
    return message.socket.remoteAddress
  } catch {
    return undefined
  }
}

/** Returns the announced length of the body in bytes: 0 without a body, `Infinity` if it is unknown. */
const announcedLength = (message: NodeRequest): number => {
  if ("stream" in message) return message.stream.endAfterHeaders ? 0 : Infinity
  const { rawHeaders } = message
  let length: number | undefined
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] ?? ""
    if (isNamed(name, "transfer-encoding")) return Infinity
    if (length === undefined && isNamed(name, "content-length")) length = Number(rawHeaders[at + 1])
  }
  return length ?? 0
}

const isNamed = (name: string, lowerCaseName: string): boolean =>
  name.length === lowerCaseName.length && name.toLowerCase() === lowerCaseName

export const hasBody = (message: NodeRequest): boolean => announcedLength(message) > 0
