import { once } from "node:events"
import { createServer, type Server, type Socket } from "node:net"
import type { Duplex } from "node:stream"
import pg from "pg"
import { freePort } from "./freePort.ts"
import { type Message, messageReader } from "./wire.ts"

/** A pooler in transaction mode, like pgbouncer: a client may change its server session between two transactions. */
export interface TransactionPooler extends AsyncDisposable {
  /** The target's URL with the pooler's address. Every password is accepted. */
  readonly url: string
  /** Counts how often a client continued in a different server session. */
  readonly changes: () => number
  readonly close: () => Promise<void>
}

/** A session on the server, which serves one client at a time. */
interface ServerSession {
  readonly stream: Duplex
  client: PooledClient | undefined
}

interface PooledClient {
  readonly socket: Socket
  readonly waiting: Array<Message>
  session: ServerSession | undefined
  last: ServerSession | undefined
  /** Number of outstanding ReadyForQuery messages: one for each Query and each Sync. */
  owed: number
}

/** Sent to clients instead of the server's greeting: AuthenticationOk, BackendKeyData, ReadyForQuery. */
const welcome = Buffer.concat([
  Buffer.from("R\0\0\0\x08\0\0\0\0", "latin1"),
  Buffer.from("K\0\0\0\x0c\0\0\0\x01\0\0\0\x01", "latin1"),
  Buffer.from("Z\0\0\0\x05I", "latin1"),
])

const refusal = (text: string): Buffer => {
  const fields = Buffer.from(`SFATAL\0C08P01\0M${text}\0\0`)
  const head = Buffer.from("E\0\0\0\0", "latin1")
  head.writeInt32BE(fields.length + 4, 1)
  return Buffer.concat([head, fields])
}

/** How pgbouncer refuses settings for a shared session. */
const refusalOfPgbouncer = "unsupported startup parameter: options"

/**
 * Starts a pooler that shares `sessions` server sessions among any number of clients. It refuses settings of sessions in these words, or
 * ignores them (`null`).
 */
export const transactionPooler = async (
  target: string,
  sessions: number,
  refused: string | null = refusalOfPgbouncer,
): Promise<TransactionPooler> => {
  const pooler = new Pooler(target, refused)
  for (let n = 0; n < sessions; n += 1) await pooler.connect()
  const server = createServer((socket) => pooler.accept(socket))
  const url = new URL(target)
  url.host = `127.0.0.1:${await listen(server)}`
  const close = async (): Promise<void> => {
    server.close()
    pooler.close()
  }
  return { url: url.href, changes: () => pooler.changes, close, [Symbol.asyncDispose]: close }
}

class Pooler {
  changes = 0
  readonly #target: string
  readonly #refused: string | null
  readonly #idle: Array<ServerSession> = []
  readonly #queue: Array<PooledClient> = []
  readonly #streams = new Set<Duplex>()
  #closed = false

  constructor(target: string, refused: string | null) {
    this.#target = target
    this.#refused = refused
  }

  async connect(): Promise<void> {
    const stream = await connected(this.#target)
    const session: ServerSession = { stream, client: undefined }
    const read = messageReader(false)
    stream.on("data", (chunk: Buffer) => {
      for (const message of read(chunk)) this.#fromServer(session, message)
    })
    stream.on("close", () => {
      this.#streams.delete(stream)
      session.client?.socket.destroy()
    })
    this.#streams.add(stream)
    this.#idle.push(session)
    this.#link()
  }

  accept(socket: Socket): void {
    const client: PooledClient = { socket, waiting: [], session: undefined, last: undefined, owed: 0 }
    const read = messageReader(true)
    this.#streams.add(socket)
    socket.setNoDelay(true)
    socket.on("data", (chunk: Buffer) => {
      for (const message of read(chunk)) this.#fromClient(client, message)
    })
    socket.on("error", () => {})
    socket.on("close", () => {
      this.#streams.delete(socket)
      if (this.#queue.includes(client)) this.#queue.splice(this.#queue.indexOf(client), 1)
      if (client.session !== undefined) this.#replace(client.session)
    })
  }

  close(): void {
    this.#closed = true
    for (const stream of this.#streams) stream.destroy()
  }

  /** Replaces the session of a client that disconnected in the middle of a transaction. */
  #replace(session: ServerSession): void {
    session.client = undefined
    session.stream.destroy()
    if (!this.#closed) void this.connect().catch(() => {})
  }

  /** Assigns free sessions to waiting clients, starting with the session that has been free longest. */
  #link(): void {
    for (;;) {
      const [client] = this.#queue
      const [session] = this.#idle
      if (client === undefined || session === undefined) return
      this.#queue.shift()
      this.#idle.shift()
      if (client.last !== undefined && client.last !== session) this.changes += 1
      client.session = session
      client.last = session
      session.client = client
      for (const message of client.waiting.splice(0)) send(client, session, message)
    }
  }

  #fromClient(client: PooledClient, message: Message): void {
    const { bytes, type } = message
    if (type === "X") return void client.socket.end()
    if (type === "") {
      const isRefused = this.#refused !== null && bytes.includes("\0options\0")
      return void client.socket.write(isRefused ? refusal(this.#refused) : welcome)
    }
    if (client.session !== undefined) return send(client, client.session, message)
    client.waiting.push(message)
    if (!this.#queue.includes(client)) this.#queue.push(client)
    this.#link()
  }

  #fromServer(session: ServerSession, { bytes, type }: Message): void {
    const { client } = session
    if (client === undefined) return
    client.socket.write(bytes)
    if (type !== "Z") return
    client.owed -= 1
    // The latest response tells whether a transaction is open.
    if (client.owed > 0 || bytes.at(-1) !== "I".charCodeAt(0)) return
    session.client = undefined
    client.session = undefined
    this.#idle.push(session)
    this.#link()
  }
}

const send = (client: PooledClient, session: ServerSession, { bytes, type }: Message): void => {
  if (type === "Q" || type === "S") client.owed += 1
  session.stream.write(bytes)
}

const listen = async (server: Server): Promise<number> => {
  const port = await freePort()
  server.listen(port, "127.0.0.1")
  await once(server, "listening")
  return port
}

/** Opens a server connection and returns it as a raw stream after the greeting. */
const connected = async (target: string): Promise<Duplex> => {
  const client = new pg.Client({ connectionString: target, application_name: "transaction pooler" })
  client.on("error", () => {})
  await client.connect()
  const { stream } = client.connection
  stream.removeAllListeners("data")
  stream.on("error", () => {})
  return stream
}
