import type { IncomingMessage, ServerResponse } from "node:http"
import type { CallLog, OpenCall } from "./CallLog.ts"
import { deliver, failureAnswer, send, type WayBack } from "./deliver.ts"
import type { OpenAiEndpoint } from "./Endpoint.ts"
import { type Route, routeOf, services } from "./endpoints/index.ts"
import type { Incoming, Surroundings } from "./endpoints/Service.ts"
import { invalidApiKey, missingApiKey, modelNotFound, refuse, RequestRefused } from "./failures.ts"
import type { Script } from "./Script.ts"

/** State of a stand-in, as needed by a single call. */
export interface StandInState {
  readonly log: CallLog
  readonly script: Script
  /** Accepted keys; if empty, no key is required. */
  readonly apiKeys: ReadonlyArray<string>
  readonly models: ReadonlyArray<string> | "any"
  readonly maxRequestBytes: number
  readonly origin: string
  /** Functions that close the connections of running calls. */
  readonly open: Set<() => void>
}

/** Handles one call from its headers to its end. Never rejects. */
export const takeCall = async (
  state: StandInState,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> => {
  const method = request.method ?? "GET"
  const path = (request.url ?? "/").replace(/\?.*$/s, "")
  const route = routeOf(method, path)
  const call = opened(state, request, { method, path, route })
  const back = wayBack(state, call, response)
  response.setHeader("x-request-id", `req_${call.number}`)
  try {
    const endpoint = servedEndpoint(route, method, path)
    if (endpoint !== "imageFile") checkKey(state, request.headers.authorization)
    const body = await readBody(request, state.maxRequestBytes)
    await serve(state, endpoint, { headers: request.headers, path, body }, { call, back })
  } catch (error) {
    // The client is gone.
    if (back.closed.aborted || response.headersSent) return
    send(failureAnswer(failureOf(error)), back)
  }
}

const opened = (
  { log }: StandInState,
  { headers }: IncomingMessage,
  { method, path, route }: { readonly method: string; readonly path: string; readonly route: Route },
): OpenCall => {
  const idempotencyKey = headers["idempotency-key"]
  return log.begin({
    endpoint: route === "nowhere" || route === "wrongMethod" ? undefined : route,
    method,
    path,
    headers: {
      authorization: headers.authorization !== undefined,
      ...(typeof idempotencyKey === "string" ? { idempotencyKey } : {}),
      ...(headers["content-type"] === undefined ? {} : { contentType: headers["content-type"] }),
      ...(headers["user-agent"] === undefined ? {} : { userAgent: headers["user-agent"] }),
    },
  })
}

/** Watches the connection, so that the call ends with its outcome. */
const wayBack = ({ open }: StandInState, call: OpenCall, response: ServerResponse): WayBack => {
  const closed = new AbortController()
  let isBroken = false
  const breakIt = (how: () => void): void => {
    isBroken = true
    how()
  }
  const end = (): void => breakIt(() => response.socket?.destroy())
  open.add(end)
  // Emitted when the last byte was passed to the operating system; never for a connection that broke before.
  response.once("finish", () => {
    call.end(response.statusCode < 400 ? "answered" : "failed", response.statusCode)
  })
  response.once("close", () => {
    open.delete(end)
    call.end(isBroken ? "failed" : "client_gone", response.headersSent ? response.statusCode : undefined)
    closed.abort()
  })
  return { response, closed: closed.signal, breakIt }
}

const servedEndpoint = (route: Route, method: string, path: string): OpenAiEndpoint => {
  if (route === "nowhere") throw refuse(`Invalid URL (${method} ${path})`, { status: 404, code: "unknown_url" })
  if (route === "wrongMethod") {
    throw refuse(`Not allowed to ${method} on ${path}.`, { status: 405, code: "method_not_supported" })
  }
  return route
}

const checkKey = ({ apiKeys }: StandInState, authorization: string | undefined): void => {
  if (apiKeys.length === 0) return
  const key = /^Bearer +(\S+)$/i.exec(authorization ?? "")?.[1]
  if (key === undefined) throw new RequestRefused(missingApiKey)
  if (!apiKeys.includes(key)) throw new RequestRefused(invalidApiKey(key))
}

const serve = async <E extends OpenAiEndpoint>(
  { models, origin, script }: StandInState,
  endpoint: E,
  incoming: Incoming,
  { back, call }: { readonly back: WayBack; readonly call: OpenCall },
): Promise<void> => {
  const service: (typeof services)[E] = services[endpoint]
  const request = service.read(incoming)
  const model = "model" in request ? request.model : undefined
  const named = model === undefined ? {} : { model }
  if (model !== undefined && models !== "any" && !models.includes(model)) {
    call.note(named)
    throw modelNotFound(model)
  }
  const behavior = script.next(endpoint)
  call.note({ ...named, request, behavior: behavior._tag })
  const value = "value" in behavior ? behavior.value : undefined
  const surroundings: Surroundings = { number: call.number, origin, models: models === "any" ? [] : models }
  await deliver(behavior, () => service.answer(request, value, surroundings), back)
}

const failureOf = (error: unknown): RequestRefused["failure"] =>
  error instanceof RequestRefused
    ? error.failure
    : refuse(`The stand-in failed: ${String(error)}`, { status: 500, code: "stand_in_broke" }).failure

/** Factor by which a body may exceed its limit and is still read and discarded, because a client that is sending does not read the rejection. */
const DISCARD_FACTOR = 4

/** Reads the whole body. Throws `RequestRefused` beyond the limit, and the stream's error if the client disconnects. */
const readBody = async (request: IncomingMessage, maxBytes: number): Promise<Buffer> => {
  const pieces: Array<Buffer> = []
  let bytes = 0
  // Leaving the loop must not destroy the request, because the response uses the same socket.
  for await (const piece of request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    bytes += piece.length
    if (bytes <= maxBytes) pieces.push(piece)
    if (bytes > maxBytes * DISCARD_FACTOR) break
  }
  if (bytes <= maxBytes) return Buffer.concat(pieces)
  throw refuse(`Maximum content size limit (${maxBytes}) exceeded (${bytes} bytes read)`, {
    status: 413,
    headers: { connection: "close" },
  })
}
