import type * as Effect from "effect/Effect"
import { BodyGatherer, type Valve } from "./BodyGatherer.ts"
import { awaitsContinue, sendContinue } from "./expectContinue.ts"
import { ownSocket, ReadingHold } from "./holdReading.ts"
import type { NodeRequest, NodeResponse } from "./NodeExchange.ts"
import type { PieceBudget } from "./PieceBudget.ts"
import { type BodyEnd, nothingToRead, type ReadOptions, type RequestSource } from "./RequestSource.ts"

/** Returns the full target: Express and similar frameworks strip the mount path from `url` and keep `originalUrl`. */
const targetOf = (message: NodeRequest): string =>
  "originalUrl" in message && typeof message.originalUrl === "string" ? message.originalUrl : (message.url ?? "")

/** Milliseconds an HTTP/2 client gets to read a response that was sent before the end of its body. */
const lingerMs = 500

/** Bodies being gathered, only for requests that have one. */
const bodies = new WeakMap<NodeRequest, BodyGatherer>()

/** Starts to gather a body, so that its pieces do not pile up while the request waits; ends with the response. */
export const gatherBody = (message: NodeRequest, response: NodeResponse, budget: PieceBudget): void => {
  if (!hasBody(message) || message.readableDidRead) return
  const body = new BodyGatherer(budget, valveOf(message))
  bodies.set(message, body)
  let received = 0
  const onData = (piece: Uint8Array) => {
    received += piece.length
    body.push(piece)
  }
  // HTTP/2 ends the body of an aborted request as if it were complete.
  const onEnd = () =>
    body.finish(message.aborted || received < Number(message.headers["content-length"] ?? 0) ? "broken" : "complete")
  const onBroken = () => body.finish("broken")
  message.on("data", onData).on("end", onEnd)
  message.on("aborted", onBroken).on("error", onBroken).on("close", onBroken)
  response.on("close", () => body.abandon())
  // In HTTP/1, Node closes the connection after the response. An HTTP/2 stream would receive the rest of a rejected body.
  if (!("stream" in message)) response.on("finish", () => body.abandon())
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

/** A request of Node's own server. Does not read the body; `gatherBody` does. */
export class NodeSource implements RequestSource {
  readonly message: NodeRequest
  readonly response: NodeResponse
  readonly target: string
  readonly isBodyTaken: boolean
  readonly #body: BodyGatherer | undefined

  constructor(message: NodeRequest, response: NodeResponse) {
    this.message = message
    this.response = response
    this.target = targetOf(message)
    this.#body = bodies.get(message)
    this.isBodyTaken = this.#body === undefined && message.readableDidRead && hasBody(message)
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
    return this.message.complete || !hasBody(this.message)
  }

  hasMoreBody(): boolean {
    return this.#body !== undefined && !this.#body.isDrained && !awaitsContinue(this.message)
  }

  sendContinue(): void {
    sendContinue(this.message, this.response)
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
    const name = rawHeaders[at] ?? ""
    if (name.length !== lowerCaseName.length || name.toLowerCase() !== lowerCaseName) continue
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

const hasBody = (message: NodeRequest): boolean => {
  if ("stream" in message) return !message.stream.endAfterHeaders
  const { headers } = message
  return headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 0
}
