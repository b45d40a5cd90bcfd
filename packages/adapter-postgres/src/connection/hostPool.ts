import type { ListeningClient, Notification } from "./pool.ts"
import type { SessionCheck } from "./sessionChecks.ts"
import { NoConnection } from "./postgresErrors.ts"
import type { ConnectionSource, PooledConnection } from "./Session.ts"

/** A statement as the driver takes it. */
interface Query {
  readonly text: string
  readonly values?: Array<unknown>
  readonly types?: object
}

/** A connection of a `Pool` of the driver `pg`. */
export interface PgPoolClient {
  query(config: Query): Promise<{
    readonly rows: Array<unknown>
    readonly rowCount: number | null
    readonly command: string
  }>
  release(destroy?: boolean): void
  on(event: string, listener: (...args: Array<unknown>) => void): unknown
  removeListener(event: string, listener: (...args: Array<unknown>) => void): unknown
}

/** A `Pool` of the driver `pg`. Only what kiln needs, so that any version fits. */
export interface PgPool {
  connect(): Promise<PgPoolClient>
  readonly options?: object
}

/** What some versions of the driver tell of a connection. */
interface ToldByDriver {
  readonly getTransactionStatus?: () => string | null
  readonly pipeline?: boolean
  readonly processID?: number | null
  readonly connection?: { readonly stream?: { destroy(): unknown; unref?(): unknown } }
}

const toldBy = (client: PgPoolClient & ToldByDriver): ToldByDriver => client

/** Connection errors are also emitted as events, and an unhandled one would end the process. */
const heard = (): void => undefined

/** Maximum number of connections that are found in a transaction, one after the other. */
const mostUnclean = 100

/** Lends connections of a pool that belongs to the embedding program. */
export class HostPool {
  readonly #pool: PgPool
  readonly #timeoutMs: number
  readonly #check: SessionCheck
  /** How values of rows are read, whatever parsers the program has set. */
  readonly types: object
  readonly #checked = new WeakSet<PgPoolClient>()

  /** `check` is called once for each connection. */
  constructor(pool: PgPool, timeoutMs: number, types: object, check: SessionCheck) {
    this.#pool = pool
    this.#timeoutMs = timeoutMs
    this.types = types
    this.#check = check
  }

  get timeoutMs(): number {
    return this.#timeoutMs
  }

  /** Returns a connection without an open transaction. */
  async borrow(): Promise<PgPoolClient> {
    for (let n = 0; n < mostUnclean; n += 1) {
      const client = await this.#connect()
      client.on("error", heard)
      const isUsable = await this.#prepare(client).catch((error: unknown) => {
        client.release(true)
        throw error
      })
      if (isUsable) return client
      // A transaction that its program forgot. What it is about is unknown, so it must not commit.
      client.release(true)
    }
    throw new NoConnection("the connections of the pool are in transactions: end them before you release connections")
  }

  giveBack(client: PgPoolClient, cut: boolean): void {
    client.release(cut)
    if (!cut) client.removeListener("error", heard)
  }

  async #prepare(client: PgPoolClient): Promise<boolean> {
    const status = toldBy(client).getTransactionStatus?.()
    if (status === undefined) await client.query({ text: "ROLLBACK" })
    else if (status !== null && status !== "I") return false
    if (this.#checked.has(client)) return true
    await this.#check(async (text) => (await client.query({ text, types: this.types })).rows)
    this.#checked.add(client)
    return true
  }

  /** The pool itself may wait without a limit. */
  async #connect(): Promise<PgPoolClient> {
    const asked = this.#pool.connect()
    let timer: NodeJS.Timeout | undefined
    const limit = new Promise<undefined>((resolve) => {
      timer = setTimeout(() => resolve(undefined), this.#timeoutMs)
    })
    const client = await Promise.race([asked, limit]).finally(() => clearTimeout(timer))
    if (client !== undefined) return client
    asked.then(
      (late) => late.release(),
      () => undefined,
    )
    throw noneFree(this.#timeoutMs)
  }
}

const noneFree = (timeoutMs: number): NoConnection =>
  new NoConnection(
    `no connection of the pool became free within ${timeoutMs} ms (connectTimeoutMs): raise max of the pool, or hold its connections more briefly`,
  )

/** Up to `max` connections of a pool, for the steps of a database. */
export class HostSource implements ConnectionSource {
  readonly #pool: HostPool
  readonly #max: number
  readonly #keeps: boolean
  readonly #kept: Array<PgPoolClient> = []
  readonly #waiting: Array<() => void> = []
  #used = 0
  #closed = false

  /** `keeps`: connections are borrowed once and kept until `close`, so that the program cannot use them up. */
  constructor(pool: HostPool, max: number, keeps: boolean) {
    this.#pool = pool
    this.#max = max
    this.#keeps = keeps
  }

  get totalCount(): number {
    return this.#used + this.#kept.length
  }

  get idleCount(): number {
    return this.#kept.length
  }

  get waitingCount(): number {
    return this.#waiting.length
  }

  async connect(): Promise<PooledConnection> {
    await this.#turn()
    try {
      const client = this.#kept.pop() ?? (await this.#pool.borrow())
      return new HostConnection(client, this.#pool.types, (cut) => this.#giveBack(client, cut))
    } catch (error) {
      this.#next()
      throw error
    }
  }

  /** Gives kept connections back to the pool. */
  close(): void {
    this.#closed = true
    for (const client of this.#kept.splice(0)) this.#pool.giveBack(client, false)
  }

  #giveBack(client: PgPoolClient, cut: boolean): void {
    if (this.#keeps && !cut && !this.#closed) this.#kept.push(client)
    else this.#pool.giveBack(client, cut)
    this.#next()
  }

  #turn(): Promise<void> {
    if (this.#used < this.#max) {
      this.#used += 1
      return Promise.resolve()
    }
    return new Promise((resolve, reject) => {
      const enter = () => {
        clearTimeout(timer)
        resolve()
      }
      const timer = setTimeout(() => {
        this.#waiting.splice(this.#waiting.indexOf(enter), 1)
        reject(noneFree(this.#pool.timeoutMs))
      }, this.#pool.timeoutMs)
      this.#waiting.push(enter)
    })
  }

  #next(): void {
    const enter = this.#waiting.shift()
    if (enter === undefined) this.#used -= 1
    else enter()
  }
}

/** A connection of the program's while a step uses it. It may have type parsers of its own, and accept one statement at a time. */
class HostConnection implements PooledConnection {
  readonly #client: PgPoolClient
  readonly #types: object
  readonly #giveBack: (cut: boolean) => void
  #last: Promise<unknown> = Promise.resolve()

  constructor(client: PgPoolClient, types: object, giveBack: (cut: boolean) => void) {
    this.#client = client
    this.#types = types
    this.#giveBack = giveBack
  }

  query({ text, values }: { readonly text: string; readonly values: Array<unknown> }) {
    return this.command(text, values)
  }

  command(text: string, values: Array<unknown> = []) {
    const send = () => this.#client.query({ text, values, types: this.#types })
    if (toldBy(this.#client).pipeline === true) return send()
    const sent = this.#last.then(send)
    this.#last = sent.catch(() => undefined)
    return sent
  }

  release(cut: boolean): void {
    this.#giveBack(cut)
  }

  cutOff(): void {
    // A driver that hides its socket answers by itself, or not.
    toldBy(this.#client).connection?.stream?.destroy()
  }
}

type Handler = (...args: Array<unknown>) => void

/** A connection of the pool that listens. It never goes back: it is closed, and with it what it listens to. */
export class HostListeningClient implements ListeningClient {
  readonly #pool: HostPool
  readonly #handlers: Array<readonly [event: string, handler: Handler]> = []
  #client: PgPoolClient | undefined
  #last: Promise<unknown> = Promise.resolve()
  #isOver = false

  constructor(pool: HostPool) {
    this.#pool = pool
  }

  get processID(): number | null | undefined {
    return this.#client === undefined ? undefined : toldBy(this.#client).processID
  }

  onLost(handler: () => void): void {
    this.#handlers.push(["error", handler], ["end", handler])
  }

  onNotification(handler: (message: Notification) => void): void {
    this.#handlers.push(["notification", (message) => handler(message as Notification)])
  }

  async connect(): Promise<void> {
    const client = await this.#pool.borrow()
    if (this.#isOver) return this.#pool.giveBack(client, false)
    this.#client = client
    toldBy(client).connection?.stream?.unref?.()
    for (const [event, handler] of this.#handlers) client.on(event, handler)
  }

  query(text: string): Promise<unknown> {
    const sent = this.#last.then(() => this.#client?.query({ text }))
    this.#last = sent.catch(() => undefined)
    return sent
  }

  cutOff(): void {
    this.#isOver = true
    const client = this.#client
    this.#client = undefined
    if (client === undefined) return
    for (const [event, handler] of this.#handlers) client.removeListener(event, handler)
    this.#pool.giveBack(client, true)
  }
}
