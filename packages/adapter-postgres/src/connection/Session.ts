import type { AnyBatch, AnyStatement, BatchStatement, Rest, Statement } from "@kiln/sql-store"
import { sqlState } from "./postgresErrors.ts"
import { compiled, inSchema, type SqlValue, type Values, valuesOf } from "../Statement.ts"

/** Settings for statements on the store's connections. */
export interface Wire {
  readonly schema: string
  /** Whether statements stay prepared on the server. False behind a pooler in transaction mode. */
  readonly prepared: boolean
  /** Milliseconds a statement waits for a lock, unless the transaction sets less. */
  readonly lockTimeoutMs: number
}

/** Milliseconds a batch waits for a row lock. Short, because other callers wait for the batch. */
const briefWaitMs = 200

export const briefLockTimeoutMs = ({ lockTimeoutMs }: Pick<Wire, "lockTimeoutMs">): number =>
  lockTimeoutMs === 0 ? briefWaitMs : Math.min(briefWaitMs, lockTimeoutMs)

/** A client of the driver, or something that passes statements on to one. */
export interface Connection {
  query(config: {
    readonly text: string
    readonly values: Array<SqlValue>
    readonly name?: string
    /** The result that the caller needs: the rows, or the number of changed rows. The driver ignores it. */
    readonly answer: "rows" | "count"
  }): Promise<{ readonly rows: ReadonlyArray<unknown>; readonly rowCount: number | null }>
}

/** A connection of a pool while one step uses it. */
export interface PooledConnection extends Connection {
  /** Runs a statement, or without values several. */
  command(
    text: string,
    values?: Array<SqlValue>,
  ): Promise<{ readonly rows: ReadonlyArray<unknown>; readonly command: string }>
  /** Returns the connection to the pool, or closes it. */
  release(cut: boolean): void
  /** Closes the socket without a goodbye. Pending statements fail immediately. */
  cutOff(): void
}

/** Where steps get their connections. */
export interface ConnectionSource {
  connect(): Promise<PooledConnection>
}

/** Identifies a transaction to the server, also after its connection was lost. */
export interface Mark {
  readonly xid: string
  /** Identifies the server's run. After a crash, transaction numbers that had not reached the disk are reused. */
  readonly life: string
}

/** Changes when the server recovers from a crash, which resets its statistics; a clean restart or reload does not. */
const serverLife = "coalesce(extract(epoch FROM pg_stat_get_bgwriter_stat_reset_time())::text, '')"

/** Begins a transaction in one round trip, with store time and its mark. */
export const begin = async (
  client: Pick<PooledConnection, "command">,
  statement: string,
  now: string,
): Promise<{ readonly now: number; readonly mark: Mark }> => {
  const [, began] = await Promise.all([
    client.command(statement),
    client.command(`SELECT ${now} AS now, pg_current_xact_id()::text AS xid, ${serverLife} AS life`),
  ])
  const [first] = began.rows as ReadonlyArray<{ readonly now: number } & Mark>
  if (first === undefined) throw new TypeError("a SELECT without FROM has a row")
  return { now: first.now, mark: first }
}

/** The server's status of a transaction; `null` if the transaction is too old. */
export type Fate = "committed" | "aborted" | "in progress" | null

/** Returns the state of a transaction on the server. Fails with 22023 if the server has not assigned this number yet. */
export const readFate = async (
  client: Pick<PooledConnection, "command">,
  { life: began, xid }: Mark,
): Promise<Fate> => {
  const { rows } = await client.command(`SELECT pg_xact_status($1::xid8) AS fate, ${serverLife} AS now`, [xid])
  const [told] = rows as ReadonlyArray<{ readonly fate: Fate; readonly now: string }>
  if (told === undefined) throw new TypeError("a SELECT without FROM has a row")
  if (told.now === began) return told.fate
  // After a crash the number may be another transaction's. Of two only one can have committed, and it may be either.
  return told.fate === "committed" ? null : "aborted"
}

/** Runs statements on one connection. Several may be sent before the first is answered; answers come in order. */
export class Session {
  readonly #client: Connection
  readonly #wire: Wire
  #over = false
  #failed: unknown

  constructor(client: Connection, wire: Wire) {
    this.#client = client
    this.#wire = wire
  }

  async all<P extends Values, Row>(statement: Statement<P, Row>, parameters: P): Promise<ReadonlyArray<Row>> {
    return (await this.#send(statement, "rows", parameters)).rows as ReadonlyArray<Row>
  }

  async get<P extends Values, Row>(statement: Statement<P, Row>, parameters: P): Promise<Row | undefined> {
    return (await this.all(statement, parameters))[0]
  }

  /** Returns whether the statement returns a row. */
  async any<P extends Values>(statement: Statement<P, unknown>, parameters: P): Promise<boolean> {
    return (await this.all(statement, parameters)).length > 0
  }

  /** Returns the number of changed rows. */
  async run<P extends Values>(statement: Statement<P, unknown>, parameters: P): Promise<number> {
    return (await this.#send(statement, "count", parameters)).rowCount ?? 0
  }

  /** Returns the rows of a statement over many items. Without items it sends nothing. */
  async batch<Item extends object, P extends Values, Row>(
    statement: BatchStatement<Item, P, Row>,
    items: ReadonlyArray<Item>,
    ...[parameters]: Rest<P>
  ): Promise<ReadonlyArray<Row>> {
    if (items.length === 0) return []
    return (await this.#send(statement, "rows", parameters, items)).rows as ReadonlyArray<Row>
  }

  /** Returns the number of rows that a statement over many items changed. */
  async runBatch<Item extends object, P extends Values>(
    statement: BatchStatement<Item, P, unknown>,
    items: ReadonlyArray<Item>,
    ...[parameters]: Rest<P>
  ): Promise<number> {
    if (items.length === 0) return 0
    return (await this.#send(statement, "count", parameters, items)).rowCount ?? 0
  }

  /** Milliseconds a statement waits for locks that are held only briefly, also in transactions with a short lock timeout. */
  get lockTimeoutMs(): number {
    return this.#wire.lockTimeoutMs
  }

  /** Runs SQL text written for the schema `"kiln"` and returns its rows. Used by migrations. */
  async execute<Row>(text: string, values: ReadonlyArray<SqlValue> = []): Promise<ReadonlyArray<Row>> {
    if (this.#over) throw new TypeError("this session has ended")
    // Without values it is a simple query, which may contain several statements.
    const config = { text: inSchema(text, this.#wire.schema), values: [...values] }
    const result = await this.#client.query({ ...config, answer: "rows" })
    return result.rows as ReadonlyArray<Row>
  }

  /**
   * Stops sending. If one of several concurrent branches fails, the others must not continue on a connection that another
   * step may use by then.
   */
  end(): void {
    this.#over = true
  }

  /** Statements after a failed one fail because the transaction is aborted; the cause is the first failure. */
  #causeOf(error: unknown): unknown {
    if (sqlState(error) === "25P02") return this.#failed ?? error
    this.#failed = error
    return error
  }

  #send(
    statement: AnyStatement | AnyBatch,
    answer: "rows" | "count",
    given: Values = {},
    items?: ReadonlyArray<object>,
  ) {
    if (this.#over) throw new TypeError("this session has ended")
    const own = compiled(statement)
    const config = { text: inSchema(own.sql, this.#wire.schema), values: valuesOf(own, given, items), answer }
    const sent = this.#client.query(this.#wire.prepared ? { ...config, name: own.name } : config)
    return sent.catch((error: unknown) => {
      throw this.#causeOf(error)
    })
  }
}

/** The session of a verb while its transaction is open. */
export class Transaction extends Session {
  /** Store time, read after the transaction began: Unix milliseconds by the database's clock. */
  readonly now: number
  readonly #last: Array<Promise<unknown>> = []

  constructor(client: Connection, wire: Wire, now: number) {
    super(client, wire)
    this.now = now
  }

  /**
   * Sends COMMIT behind these statements without waiting for their answers, which saves a round trip. If one of them fails,
   * nothing is committed, and the verb fails with its error. They must need no check other than the server's own.
   */
  commitWith(...statements: ReadonlyArray<Promise<unknown>>): void {
    for (const statement of statements) {
      // It is awaited after COMMIT was sent.
      statement.catch(() => undefined)
      this.#last.push(statement)
    }
  }

  /** Resolves when every statement given to `commitWith` was answered. */
  async lastAnswers(): Promise<void> {
    await Promise.all(this.#last)
  }
}
