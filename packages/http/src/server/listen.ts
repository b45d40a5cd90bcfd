import { createServer, type Server } from "node:http"
import type { AddressInfo, Socket } from "node:net"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"

/** Listening on the port failed. */
export class ListenFailed extends Schema.TaggedError<ListenFailed>()("ListenFailed", {
  host: Schema.String,
  port: Schema.Number,
  cause: Schema.Defect(),
}) {}

/** Grace period for requests in flight on shutdown, in milliseconds. */
const graceMs = 20_000
/** Most turns of the event loop in which a server that stops accepts connections. A busy process may never find none waiting. */
const acceptingTurns = 100
/** Maximum length of a request line with its headers, in bytes. */
const maxHeaderBytes = 16_384

export const makeServer = (): Server =>
  createServer({
    maxHeaderSize: maxHeaderBytes,
    // Limits slow senders of headers; bodies have separate timeouts (an upload may take 10 min).
    headersTimeout: 30_000,
    requestTimeout: 0,
    connectionsCheckingInterval: 5_000,
    // Longer than the 60 s after which common proxies close idle connections, so that they never reuse one closed here.
    keepAliveTimeout: 65_000,
    // Node would respond with an empty 400; the service checks this itself and explains the error.
    requireHostHeader: false,
    insecureHTTPParser: false,
  })
    // Ends idle sockets, such as of a client that stopped reading its response.
    .setTimeout(120_000, (socket) => void socket.destroy())

/** The address on which a server listens. */
export interface ListenOptions {
  readonly host: string
  readonly port: number
  /** Descriptor of a listening socket that this process inherited, instead of `host` and `port`. */
  readonly socket?: number | undefined
}

/** Listens on the port until the scope closes; then stops accepting, and waits for requests in flight during the grace period. */
export const listen = Effect.fnUntraced(function* (
  server: Server,
  { host, port, socket }: ListenOptions,
): Effect.fn.Return<number, ListenFailed, Scope.Scope> {
  const log = Effect.runForkWith(yield* Effect.context())
  // For example, too few file descriptors for another connection; open ones continue.
  const onLaterError = (cause: Error) => void log(Effect.logWarning("could not accept a connection", cause))
  const bind = Effect.callback<number, ListenFailed>((resume) => {
    const onError = (cause: Error) => resume(Effect.fail(new ListenFailed({ host, port, cause })))
    server.once("error", onError).listen(socket === undefined ? { host, port } : { fd: socket }, () => {
      server.off("error", onError).on("error", onLaterError)
      resume(Effect.succeed((server.address() as AddressInfo).port))
    })
  })
  // Connections that wait in an inherited socket are accepted by the next process.
  const turns = socket === undefined ? acceptingTurns : 1
  const sockets = noteSockets(server)
  return yield* Effect.acquireRelease(bind, () => stop(server, sockets, turns))
})

/** Tracks the open connections. */
const noteSockets = (server: Server): ReadonlySet<Socket> => {
  const sockets = new Set<Socket>()
  server.on("connection", (socket: Socket) => {
    sockets.add(socket)
    socket.once("close", () => sockets.delete(socket))
  })
  return sockets
}

/**
 * Stops the server. Uses Node's own timers, because the fiber that closes the scope may already be interrupted, and Effect's
 * timeouts would not wait then.
 */
const stop = (server: Server, sockets: ReadonlySet<Socket>, turns: number): Effect.Effect<void> =>
  Effect.callback((resume) => {
    afterAccepting(server, turns, () => {
      // A connection that becomes idle only now would otherwise stay open for a next request.
      const closeIdle = setInterval(() => {
        server.closeIdleConnections()
        // Node does not count a connection as idle before its first request.
        for (const socket of sockets) if (socket.bytesRead === 0) socket.destroy()
      }, 50)
      const cut = setTimeout(() => server.closeAllConnections(), graceMs)
      server.close(() => {
        clearInterval(closeIdle)
        clearTimeout(cut)
        resume(Effect.void)
      })
    })
  })

/**
 * Runs `close` right after a turn of the event loop that found no connection waiting, or after that many turns: Node accepts one
 * connection in a turn, and the kernel resets those that are left. The turn has also read what callers sent on idle connections.
 */
const afterAccepting = (server: Server, turns: number, close: () => void): void => {
  let accepted = true
  const onConnection = () => void (accepted = true)
  server.on("connection", onConnection)
  const turn = (left: number) => {
    if (accepted && left > 0) {
      accepted = false
      return void setImmediate(turn, left - 1)
    }
    server.off("connection", onConnection)
    close()
  }
  setImmediate(turn, turns)
}
