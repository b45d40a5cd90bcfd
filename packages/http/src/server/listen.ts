import { createServer, type Server } from "node:http"
import type { AddressInfo } from "node:net"
import { Effect, Schema, type Scope } from "effect"

/** The port cannot be listened on. */
export class ListenFailed extends Schema.TaggedError<ListenFailed>()("ListenFailed", {
  host: Schema.String,
  port: Schema.Number,
  cause: Schema.Defect(),
}) {}

/** How long requests in flight may finish when the service stops, in milliseconds. */
const graceMs = 20_000
/** Bytes of a request line with its headers. */
const maxHeaderBytes = 16_384

export const makeServer = (): Server =>
  createServer({
    maxHeaderSize: maxHeaderBytes,
    // Headers must arrive in time, which bounds slow senders; bodies have their own limits (an upload may take 10 min).
    headersTimeout: 30_000,
    requestTimeout: 0,
    connectionsCheckingInterval: 5_000,
    // Longer than the 60 s after which common proxies drop a connection themselves: they must not meet one just closed.
    keepAliveTimeout: 65_000,
    // Node would answer with an empty 400; the service checks for itself and says why.
    requireHostHeader: false,
    insecureHTTPParser: false,
  })
    // A socket on which nothing moves: a client that stopped reading what it asked for.
    .setTimeout(120_000, (socket) => void socket.destroy())

/** Binds the port until the scope closes; then stops accepting, and waits for requests in flight as long as they may take. */
export const listen = Effect.fnUntraced(function* (
  server: Server,
  options: { readonly host: string; readonly port: number },
): Effect.fn.Return<number, ListenFailed, Scope.Scope> {
  const log = Effect.runForkWith(yield* Effect.context())
  // Such as too few file descriptors for another connection: those that are open go on.
  const onLaterError = (cause: Error) => void log(Effect.logWarning("a connection was not accepted", cause))
  const bind = Effect.callback<number, ListenFailed>((resume) => {
    const onError = (cause: Error) => resume(Effect.fail(new ListenFailed({ ...options, cause })))
    server.once("error", onError).listen(options.port, options.host, () => {
      server.off("error", onError).on("error", onLaterError)
      resume(Effect.succeed((server.address() as AddressInfo).port))
    })
  })
  return yield* Effect.acquireRelease(bind, () => stop(server))
})

/**
 * Node's own timers, because the fiber that closes a scope may be interrupted already, and then nothing of Effect that
 * could be waited for with a limit would wait.
 */
const stop = (server: Server): Effect.Effect<void> =>
  Effect.callback((resume) => {
    // A connection that becomes idle only now would be kept open for a next request.
    const closeIdle = setInterval(() => server.closeIdleConnections(), 50)
    const cut = setTimeout(() => server.closeAllConnections(), graceMs)
    server.close(() => {
      clearInterval(closeIdle)
      clearTimeout(cut)
      resume(Effect.void)
    })
  })
