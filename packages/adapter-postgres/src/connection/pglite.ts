import { Duplex } from "node:stream"
import { callbackify } from "node:util"
import pg from "pg"
import { types } from "./pool.ts"
import { NoConnection } from "./postgresErrors.ts"
import type { ConnectionSource, PooledConnection } from "./Session.ts"

/** A database of PGlite: Postgres in this process. Only what kiln needs, so that any version fits. */
export interface PGliteDatabase {
  readonly closed: boolean
  execProtocolRaw(message: Uint8Array): Promise<Uint8Array>
  transaction<A>(work: (tx: { rollback(): Promise<void> }) => Promise<A>): Promise<A>
}

/** The driver's socket to a database in this process. Each message of the driver is complete. */
class PGliteSocket extends Duplex {
  readonly #database: PGliteDatabase

  constructor(database: PGliteDatabase) {
    super()
    this.#database = database
  }

  connect(): this {
    queueMicrotask(() => this.emit("connect"))
    return this
  }

  setNoDelay(): this {
    return this
  }

  setKeepAlive(): this {
    return this
  }

  ref(): this {
    return this
  }

  unref(): this {
    return this
  }

  override _read(): void {
    // Answers are pushed.
  }

  override _write(chunk: Uint8Array, _encoding: string, done: (error?: Error | null) => void): void {
    // The goodbye of the driver would end the database.
    if (chunk[0] === goodbye) {
      this.push(null)
      return done()
    }
    callbackify(() => this.#run(chunk))(done)
  }

  async #run(chunk: Uint8Array): Promise<void> {
    try {
      const answer = await this.#database.execProtocolRaw(chunk)
      if (answer.length > 0) this.push(Buffer.from(answer))
    } catch (cause) {
      throw new NoConnection("PGlite failed, or is closed", { cause })
    }
  }
}

const goodbye = "X".charCodeAt(0)

/**
 * The one connection of PGlite, which steps use one after the other, and transactions of the program in between. It speaks the protocol of
 * a server, so statements, errors and values are the same as elsewhere.
 */
export class PGliteSource implements ConnectionSource {
  readonly #database: PGliteDatabase
  readonly #timeoutMs: number
  #client: Promise<pg.Client> | undefined
  #waiting = 0
  #used = 0

  constructor(database: PGliteDatabase, timeoutMs: number) {
    this.#database = database
    this.#timeoutMs = timeoutMs
  }

  get totalCount(): number {
    return this.#client === undefined ? 0 : 1
  }

  get idleCount(): number {
    return this.totalCount - this.#used
  }

  get waitingCount(): number {
    return this.#waiting
  }

  async connect(): Promise<PooledConnection> {
    const release = await this.#turn()
    try {
      const client = await (this.#client ??= connected(this.#database))
      return {
        query: (config) => client.query(config),
        command: (text, values) => client.query(text, values),
        release: (cut) => {
          if (cut) this.#client = undefined
          release()
        },
        // Nothing in this process could cut it off from itself.
        cutOff: () => undefined,
      }
    } catch (error) {
      this.#client = undefined
      release()
      throw error
    }
  }

  /** Waits until no statement and no transaction of the program uses the database. */
  async #turn(): Promise<() => void> {
    if (this.#database.closed) throw new NoConnection("PGlite is closed")
    const { promise: over, resolve: release } = Promise.withResolvers<void>()
    const { promise: begun, resolve: begin } = Promise.withResolvers<"begun">()
    let isLate = false
    this.#waiting += 1
    // The transaction ends at once; the database stays reserved until the callback returns.
    const held = this.#database.transaction(async (tx) => {
      await tx.rollback()
      if (isLate) return
      this.#used = 1
      begin("begun")
      await over
      this.#used = 0
    })
    let timer: NodeJS.Timeout | undefined
    const limit = new Promise<"late">((resolve) => {
      timer = setTimeout(() => resolve("late"), this.#timeoutMs)
    })
    try {
      if ((await Promise.race([begun, limit, held.then(() => "late" as const)])) === "begun") return release
    } catch (cause) {
      throw new NoConnection("PGlite failed, or is closed", { cause })
    } finally {
      clearTimeout(timer)
      this.#waiting -= 1
      held.catch(() => undefined)
    }
    isLate = true
    release()
    throw new NoConnection(
      `PGlite was in use for ${this.#timeoutMs} ms (connectTimeoutMs): it has one connection, so a transaction of the program must end before kiln continues`,
    )
  }
}

const connected = async (database: PGliteDatabase): Promise<pg.Client> => {
  const client = new pg.Client({
    stream: () => new PGliteSocket(database),
    user: "postgres",
    database: "postgres",
    password: "",
    ssl: false,
    pipeline: true,
    types,
  })
  client.on("error", () => undefined)
  await client.connect()
  return client
}
