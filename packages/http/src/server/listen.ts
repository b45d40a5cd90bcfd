import { createServer, type Server } from "node:http"
import type { AddressInfo } from "node:net"
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

/** Listens on the port until the scope closes; then stops accepting, and waits for requests in flight during the grace period. */
export const listen = Effect.fnUntraced(function* (
  server: Server,
  options: { readonly host: string; readonly port: number },
): Effect.fn.Return<number, ListenFailed, Scope.Scope> {
  const log = Effect.runForkWith(yield* Effect.context())
  // For example, too few file descriptors for another connection; open ones continue.
  const onLaterError = (cause: Error) => void log(Effect.logWarning("could not accept a connection", cause))
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
 * Stops the server. Uses Node's own timers, because the fiber that closes the scope may already be interrupted, and Effect's
 * timeouts would not wait then.
 */
const stop = (server: Server): Effect.Effect<void> =>
  Effect.callback((resume) => {
    // A connection that becomes idle only now would otherwise stay open for a next request.
    const closeIdle = setInterval(() => server.closeIdleConnections(), 50)
    const cut = setTimeout(() => server.closeAllConnections(), graceMs)
    server.close(() => {
      clearInterval(closeIdle)
      clearTimeout(cut)
      resume(Effect.void)
    })
  })
