import { randomBytes } from "node:crypto"
import { once } from "node:events"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import { type AddressInfo, BlockList, connect, type Socket } from "node:net"
import { setImmediate as nextTurn, setTimeout as sleep } from "node:timers/promises"
import { formatId } from "@kiln/core/domain"
import { releaseBytes } from "@kiln/core/ports"
import { Effect, Exit, Scope, Stream } from "effect"
import type * as AppModule from "../../src/server/app.ts"
import type * as BodyModule from "../../src/server/body.ts"
import type * as ListenerModule from "../../src/server/nodeListener.ts"
import type { Handler } from "../../src/server/app.ts"

/** The server's modules: the sources, or a copy with a bug. */
export type Modules = Pick<typeof AppModule, "makeApp" | "Router"> &
  Pick<typeof BodyModule, "readWholeBody" | "streamBody"> &
  Pick<typeof ListenerModule, "nodeListener">

export const loadModules = async (directory: string): Promise<Modules> => ({
  ...((await import(`${directory}/server/app.ts`)) as typeof AppModule),
  ...((await import(`${directory}/server/body.ts`)) as typeof BodyModule),
  ...((await import(`${directory}/server/nodeListener.ts`)) as typeof ListenerModule),
})

/** Number of requests that share a commit. */
const committed = 20

/**
 * A server with four routes: `POST /`, whose replies are delayed, `GET /`, whose replies are ready at once, `DELETE /`, whose replies
 * become ready together like those of a commit, and `PUT /`, which frees the pieces of the body and replies with the number of bytes
 * that are left of them. Returns the bodies of requests that stopped waiting, and whether any reply was sent before its time.
 */
const startEcho = async (
  { makeApp, nodeListener, readWholeBody, Router, streamBody }: Modules,
  delayMs: number,
  onBegin: (body: string) => void = () => {},
  onRequest: (request: IncomingMessage) => void = () => {},
) => {
  const stopped: Array<string> = []
  const handle: Handler = (exchange) =>
    Effect.flatMap(readWholeBody(exchange, 65_536), (bytes) => {
      const body = Buffer.from(bytes).toString()
      onBegin(body)
      const wait = Effect.onInterrupt(Effect.sleep(delayMs), () => Effect.sync(() => stopped.push(body)))
      return Effect.as(Effect.interruptible(wait), { status: 200, headers: {}, body })
    })
  const free: Handler = (exchange) =>
    Effect.map(Stream.runCollect(streamBody(exchange)), (pieces) => {
      for (const piece of pieces) releaseBytes(piece)
      return { status: 200, headers: {}, body: String(pieces.reduce((left, piece) => left + piece.length, 0)) }
    })
  const responses: Array<ServerResponse> = []
  let sentEarly = false
  const waiting: Array<() => void> = []
  const commit: Handler = () =>
    Effect.callback((resume) => {
      waiting.push(() => resume(Effect.succeed({ status: 200, headers: {}, body: "ready" })))
      if (waiting.length < committed) return
      for (const settle of waiting.splice(0)) settle()
      sentEarly ||= responses.some((response) => response.headersSent)
    })
  const app = makeApp({
    router: new Router([
      { method: "POST", path: "/", handle },
      { method: "GET", path: "/", handle: () => Effect.succeed({ status: 200, headers: {}, body: "ready" }) },
      { method: "DELETE", path: "/", handle: commit },
      { method: "PUT", path: "/", handle: free },
    ]),
    ids: { next: (prefix) => formatId(prefix, randomBytes(16)) },
    observer: undefined,
    shutdown: { isStopping: false, closesConnections: false },
    prefix: "",
    trustedProxies: new BlockList(),
  })
  const scope = Scope.makeUnsafe()
  const listener = await Effect.runPromise(nodeListener(app, scope))
  const server = createServer((request, response) => {
    if (request.method === "DELETE") responses.push(response)
    onRequest(request)
    listener(request, response)
    sentEarly ||= request.method === "GET" && response.headersSent
  })
  await once(server.listen(0, "127.0.0.1"), "listening")
  const { port } = server.address() as AddressInfo
  return {
    port,
    stopped,
    /** Resolves after the next request has begun: its head and what follows in the same packet have arrived. */
    nextRequest: async () => {
      await once(server, "request")
      await nextTurn()
    },
    sentEarly: () => sentEarly,
    [Symbol.asyncDispose]: async () => {
      const closed = once(server.close(), "close")
      server.closeAllConnections()
      await closed
      await Effect.runPromise(Scope.close(scope, Exit.void))
    },
  }
}

const requestOf = (body: string): string =>
  `POST / HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n${body}`

const responseBody = /^content-length: (\d+)\r\n[^]*?\r\n\r\n([^]*)$/im

type Echo = Awaited<ReturnType<typeof startEcho>>

/** Writes a request, its second part after the server has read the first, and returns the body of the response. */
const echoOf = async ({ nextRequest, port }: Echo, [first, second]: readonly [string, string?]): Promise<string> => {
  const socket = connect(port, "127.0.0.1")
  let received = ""
  const whole = new Promise<string>((resolve, reject) => {
    socket.on("error", reject).on("close", () => resolve(received))
    socket.setEncoding("latin1").on("data", (text: string) => {
      received += text
      const [, length = "", body = ""] = responseBody.exec(received) ?? []
      if (length !== "" && body.length >= Number(length)) resolve(body)
    })
  })
  const hasBegun = nextRequest()
  socket.write(first)
  await hasBegun
  if (second !== undefined) socket.write(second)
  return whole.finally(() => socket.destroy())
}

/** Returns whether a body that arrives in parts is read to its end, wherever it is cut. */
export const readsWholeBodies = async (modules: Modules): Promise<boolean> => {
  await using server = await startEcho(modules, 0)
  const request = requestOf("0123456789")
  const cuts = [request.length - 10, request.length - 7, request.length - 1]
  const parts = cuts.map((cut) => [request.slice(0, cut), request.slice(cut)] as const)
  // One after the other, so that each knows when its own request has begun.
  for (const sent of [...parts, [request] as const]) if ((await echoOf(server, sent)) !== "0123456789") return false
  return true
}

/** Returns whether concurrent requests get their own bodies and request ids. */
export const keepsRequestsApart = async (modules: Modules): Promise<boolean> => {
  await using server = await startEcho(modules, 20)
  const sent = Array.from({ length: 20 }, (_, n) => `body ${n}`)
  const answers = await Promise.all(
    sent.map(async (body) => {
      const response = await fetch(`http://127.0.0.1:${server.port}/`, { method: "POST", body })
      return { id: response.headers.get("x-request-id"), body: await response.text() }
    }),
  )
  const isOwn = answers.every(({ body }, n) => body === sent[n])
  return isOwn && new Set(answers.map(({ id }) => id)).size === sent.length
}

const isWhole = (reply: PromiseSettledResult<ReadonlyArray<unknown>>): boolean =>
  reply.status === "fulfilled" && String(reply.value[0]).endsWith("\r\n\r\nready")

/** Returns whether replies that are ready at once are sent together after their turn, also beside clients that have gone. */
export const sendsTogether = async (modules: Modules): Promise<boolean> => {
  await using server = await startEcho(modules, 0)
  const sockets = Array.from({ length: 20 }, () => connect(server.port, "127.0.0.1").setEncoding("latin1"))
  const signal = AbortSignal.timeout(10_000)
  const send = () => {
    for (const socket of sockets) socket.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
  }
  const received = () => Promise.allSettled(sockets.map((socket) => once(socket, "data", { signal })))
  // The server accepts a connection a turn, but reads all those that it has in one.
  send()
  await received()
  send()
  for (const socket of sockets.splice(0, 5)) socket.resetAndDestroy()
  const replies = await received()
  for (const socket of sockets) socket.destroy()
  return !server.sentEarly() && replies.every(isWhole)
}

/** Returns whether the replies of a commit are sent together, after the last of them is ready. */
export const sendsCommitsTogether = async (modules: Modules): Promise<boolean> => {
  await using server = await startEcho(modules, 0)
  const sockets = Array.from({ length: committed }, () => connect(server.port, "127.0.0.1").setEncoding("latin1"))
  const signal = AbortSignal.timeout(10_000)
  const received = Promise.allSettled(sockets.map((socket) => once(socket, "data", { signal })))
  for (const socket of sockets) socket.write("DELETE / HTTP/1.1\r\nHost: x\r\n\r\n")
  const replies = await received
  for (const socket of sockets) socket.destroy()
  return !server.sentEarly() && replies.every(isWhole)
}

/** Returns whether a request that arrives before the commit of earlier ones begins before it too, so that they can share it. */
export const beginsBeforeCommits = async (modules: Modules): Promise<boolean> => {
  const order: Array<string> = []
  const late: { socket?: Socket } = {}
  await using server = await startEcho(modules, 0, (body) => {
    order.push(body)
    if (body !== "first") return
    setImmediate(() => order.push("commit"))
    late.socket?.write(requestOf("second"))
  })
  // A request of its own opens the connection, so that the server reads the next one at once.
  const second = connect(server.port, "127.0.0.1").setEncoding("latin1")
  late.socket = second
  second.write(requestOf("opens"))
  await once(second, "data")
  const answered = once(second, "data", { signal: AbortSignal.timeout(5_000) })
  await echoOf(server, [requestOf("first")])
  await answered
  second.destroy()
  return order.join(" ") === "opens first second commit"
}

/** Returns whether a request stops waiting once its client has gone. */
export const stopsForGoneClients = async (modules: Modules): Promise<boolean> => {
  await using server = await startEcho(modules, 60_000)
  const socket = connect(server.port, "127.0.0.1")
  const hasBegun = server.nextRequest()
  socket.write(requestOf("0123456789"))
  await hasBegun
  socket.resetAndDestroy()
  for (let waited = 0; waited < 5_000 && server.stopped.length === 0; waited += 10) await sleep(10)
  return server.stopped.length === 1
}

/** Returns whether the pieces of a body can be freed, unless another program may hold them. */
export const freesOwnPieces = async (modules: Modules): Promise<boolean> => {
  const bytes = 1_000_000
  let held = 0
  const hold = (request: IncomingMessage) => {
    if (request.headers["x-held"] !== undefined) request.on("data", (piece: Buffer) => (held += piece.length))
  }
  await using server = await startEcho(modules, 0, undefined, hold)
  const left = async (headers: Record<string, string>): Promise<string> => {
    const body = new Uint8Array(bytes)
    return (await fetch(`http://127.0.0.1:${server.port}/`, { method: "PUT", body, headers })).text()
  }
  // The last piece may be too short to be passed on as it arrived.
  const isFreed = Number(await left({})) < 100_000
  return isFreed && (await left({ "x-held": "1" })) === String(bytes) && held === bytes
}
