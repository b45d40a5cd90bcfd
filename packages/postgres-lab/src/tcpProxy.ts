import { once } from "node:events"
import { createServer, type Server } from "node:net"
import { freePort } from "./freePort.ts"
import { type Fault, ProxiedConnection } from "./ProxiedConnection.ts"

/** A proxy between clients and a Postgres server that injects network faults on demand. */
export interface TcpProxy extends AsyncDisposable {
  /** The target's URL with the proxy's address. */
  readonly url: string
  readonly port: number
  /** Returns the number of open connections. */
  readonly connections: () => number
  /** Counts client messages since the last reset, by their names in the protocol's documentation (Query, Parse, Execute, Sync …). */
  readonly messages: () => ReadonlyMap<string, number>
  /** Counts statements run by clients since the last reset, by their text: each Query and each Execute. */
  readonly statements: () => ReadonlyMap<string, number>
  /** Counts round trips since the last reset: messages that a client sends while it awaits no response begin one. */
  readonly flights: () => number
  /** Counts transactions since the last reset that ran statements, those without BEGIN included. */
  readonly transactions: () => number
  readonly resetCounts: () => void
  /**
   * Lets the server run the next matching statement, and closes the connection instead of delivering the response. Resolves
   * with the statement's text; rejects if the connection ended before the server responded.
   */
  readonly dropAnswer: (to?: RegExp) => Promise<string>
  /** Closes the connection of the next matching statement before the server receives it. Resolves with its text. */
  readonly cutBefore: (statement?: RegExp) => Promise<string>
  /** Delays everything by `delayMs` milliseconds in each direction. */
  readonly delay: (delayMs: number) => void
  /** Accepts connections but forwards nothing, on open connections too, which stay open. */
  readonly blackHole: () => void
  /** Refuses new connections; open ones are not affected. */
  readonly refuse: () => void
  /** Ends `blackHole` and `refuse`; held bytes are delivered late. */
  readonly pass: () => Promise<void>
  readonly cutAll: () => void
  readonly close: () => Promise<void>
}

const commit = /(?:^|;)\s*commit(?:\s+(?:work|transaction))?\s*;?\s*$/i

interface Armed extends Fault {
  readonly pattern: RegExp
}

/** Starts a proxy on 127.0.0.1 in front of the server at `target`, a postgres:// URL. Connections through it are never encrypted. */
export const tcpProxy = async (target: string): Promise<TcpProxy> => {
  const url = new URL(target)
  const upstream = { host: url.hostname, port: Number(url.port || 5432) }
  const port = await freePort()
  const open = new Set<ProxiedConnection>()
  const armed = new Set<Armed>()
  const counts = emptyCounts()
  let delayMs = 0
  let held = false
  const server = createServer((client) => {
    if (held) client.pause()
    const connection = new ProxiedConnection({
      client,
      target: upstream,
      delayMs: () => delayMs,
      onMessage: (name) => increment(counts.messages, name),
      onStatement: (text) => {
        increment(counts.statements, text)
        return disarm(armed, text)
      },
      onFlight: () => (counts.flights += 1),
      onTransaction: () => (counts.transactions += 1),
      onClose: () => open.delete(connection),
    })
    open.add(connection)
  })
  await listen(server, port)
  url.host = `127.0.0.1:${port}`
  const hold = (value: boolean): void => {
    held = value
    for (const connection of open) connection.hold(value)
  }
  const cutAll = (): void => {
    for (const connection of open) connection.cut()
  }
  const close = async (): Promise<void> => {
    server.close()
    cutAll()
    for (const { missed } of armed) missed()
  }
  return {
    url: url.href,
    port,
    connections: () => open.size,
    messages: () => new Map(counts.messages),
    statements: () => new Map(counts.statements),
    flights: () => counts.flights,
    transactions: () => counts.transactions,
    resetCounts: () => void Object.assign(counts, emptyCounts()),
    dropAnswer: (to = commit) => arm(armed, "after", to),
    cutBefore: (statement = commit) => arm(armed, "before", statement),
    delay: (value) => {
      delayMs = value
    },
    blackHole: () => hold(true),
    refuse: () => void server.close(),
    pass: async () => {
      hold(false)
      if (!server.listening) await listen(server, port)
    },
    cutAll,
    close,
    [Symbol.asyncDispose]: close,
  }
}

const emptyCounts = () => ({
  messages: new Map<string, number>(),
  statements: new Map<string, number>(),
  flights: 0,
  transactions: 0,
})

const listen = async (server: Server, port: number): Promise<void> => {
  server.listen(port, "127.0.0.1")
  await once(server, "listening")
}

const increment = (counts: Map<string, number>, key: string): void => void counts.set(key, (counts.get(key) ?? 0) + 1)

const arm = (armed: Set<Armed>, cut: Fault["cut"], pattern: RegExp): Promise<string> => {
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  // A test that ends early for another reason does not await this promise.
  promise.catch(() => {})
  armed.add({
    pattern,
    cut,
    happened: resolve,
    missed: () => reject(new Error(`the connection was never cut ${cut} ${pattern}`)),
  })
  return promise
}

/** Takes the first armed fault that matches the statement; each applies once. */
const disarm = (armed: Set<Armed>, text: string): Armed | undefined => {
  const match = [...armed].find(({ pattern }) => pattern.test(text))
  if (match !== undefined) armed.delete(match)
  return match
}
