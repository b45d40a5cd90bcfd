import type pg from "pg"
import { sql as raw } from "kysely"
import { sqlState } from "./postgresErrors.ts"
import { type BatchStatement, inSchema, type SqlValue, type Statement, type Values } from "./Statement.ts"

/** How statements travel on this store's connections. */
export interface Wire {
  readonly schema: string
  /** Whether statements stay prepared on the server. Not behind a pooler that hands out another server each time. */
  readonly prepared: boolean
  /** Milliseconds a statement waits for another's lock, where no transaction says that it waits for less. */
  readonly lockTimeoutMs: number
}

/** Milliseconds a batch waits for a row that somebody holds: many stand behind it, who want others. */
const briefWaitMs = 200

export const briefLockTimeoutMs = ({ lockTimeoutMs }: Pick<Wire, "lockTimeoutMs">): number =>
  lockTimeoutMs === 0 ? briefWaitMs : Math.min(briefWaitMs, lockTimeoutMs)

/** What a session needs of a connection: a client of the driver's, or something that passes statements on to one. */
export interface Connection {
  query(config: {
    readonly text: string
    readonly values: Array<SqlValue>
    readonly name?: string
    /** What the caller takes from the answer: the rows, or the number of rows changed. The driver takes no notice of it. */
    readonly answer: "rows" | "count"
  }): Promise<{ readonly rows: ReadonlyArray<unknown>; readonly rowCount: number | null }>
}

/** Identifies a transaction to the server, also after its connection was lost. */
export interface Mark {
  readonly xid: string
  /** The life of the server it belongs to. A crash ends one: numbers it gave to what was not yet on disk are given out again. */
  readonly life: string
}

/** A server that recovers from a crash begins its statistics anew; neither a stop in good order nor a reload does. */
const serverLife = "coalesce(extract(epoch FROM pg_stat_get_bgwriter_stat_reset_time())::text, '')"

/** Selects the mark of the transaction that a statement runs in. */
export const markColumns = [
  raw<string>`pg_current_xact_id()::text`.as("xid"),
  raw<string>`${raw.raw(serverLife)}`.as("life"),
] as const

/** Begins a transaction in one round trip, with store time and its mark. */
export const begin = async (
  client: pg.ClientBase,
  statement: string,
  now: string,
): Promise<{ readonly now: number; readonly mark: Mark }> => {
  const [, began] = await Promise.all([
    client.query(statement),
    client.query<{ now: number } & Mark>(
      `SELECT ${now} AS now, pg_current_xact_id()::text AS xid, ${serverLife} AS life`,
    ),
  ])
  const [first] = began.rows
  if (first === undefined) throw new TypeError("a SELECT without FROM has a row")
  return { now: first.now, mark: first }
}

/** What the server says of a transaction; `null` when it is too old to tell. */
export type Fate = "committed" | "aborted" | "in progress" | null

/** Asks the server what became of a transaction. Fails with 22023 where it has not given out this number. */
export const readFate = async (client: pg.ClientBase, { life: began, xid }: Mark): Promise<Fate> => {
  const { rows } = await client.query<{ fate: Fate; now: string }>(
    `SELECT pg_xact_status($1::xid8) AS fate, ${serverLife} AS now`,
    [xid],
  )
  const [told] = rows
  if (told === undefined) throw new TypeError("a SELECT without FROM has a row")
  if (told.now === began) return told.fate
  // After a crash the number may be another transaction's. Of two only one can have committed, and it may be either.
  return told.fate === "committed" ? null : "aborted"
}

/** Runs statements on one connection. Several may be sent before the first has answered; they are answered in order. */
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
    return (await this.#send(statement, statement.bind(parameters), "rows")).rows as ReadonlyArray<Row>
  }

  async get<P extends Values, Row>(statement: Statement<P, Row>, parameters: P): Promise<Row | undefined> {
    return (await this.all(statement, parameters))[0]
  }

  /** Whether it finds anything. */
  async any<P extends Values>(statement: Statement<P, unknown>, parameters: P): Promise<boolean> {
    return (await this.all(statement, parameters)).length > 0
  }

  /** The number of rows it changed. */
  async run<P extends Values>(statement: Statement<P, unknown>, parameters: P): Promise<number> {
    return (await this.#send(statement, statement.bind(parameters), "count")).rowCount ?? 0
  }

  /** Rows of a statement over many items; none at all, and no round trip, for no items. */
  async batch<Item, P extends Values, Row>(
    statement: BatchStatement<Item, P, Row>,
    items: ReadonlyArray<Item>,
    parameters: P,
  ): Promise<ReadonlyArray<Row>> {
    if (items.length === 0) return []
    return (await this.#send(statement, statement.bind(items, parameters), "rows")).rows as ReadonlyArray<Row>
  }

  /** The number of rows a statement over many items changed. */
  async runBatch<Item, P extends Values>(
    statement: BatchStatement<Item, P, unknown>,
    items: ReadonlyArray<Item>,
    parameters: P,
  ): Promise<number> {
    if (items.length === 0) return 0
    return (await this.#send(statement, statement.bind(items, parameters), "count")).rowCount ?? 0
  }

  /** Milliseconds a statement here waits for a lock that is passed on quickly, however briefly it waits for others. */
  get lockTimeoutMs(): number {
    return this.#wire.lockTimeoutMs
  }

  /** Rows of a text written for the schema `"kiln"`, for what is not a verb: schemas are made with it. */
  async execute<Row>(text: string, values: ReadonlyArray<SqlValue> = []): Promise<ReadonlyArray<Row>> {
    if (this.#over) throw new TypeError("a step that is over sends nothing")
    // Without values it is a simple query, which may hold several statements.
    const config = { text: inSchema(text, this.#wire.schema), values: [...values] }
    const result = await this.#client.query({ ...config, answer: "rows" })
    return result.rows as ReadonlyArray<Row>
  }

  /**
   * Nothing more is sent. Of several branches that travel together one may fail; the others must not go on, on a connection
   * that by then is in another step's transaction.
   */
  end(): void {
    this.#over = true
  }

  /** What fails in a transaction after a statement that failed says only that it is over: the cause is what failed first. */
  #causeOf(error: unknown): unknown {
    if (sqlState(error) === "25P02") return this.#failed ?? error
    this.#failed = error
    return error
  }

  #send(
    { name, sql }: { readonly name: string; readonly sql: string },
    values: ReadonlyArray<SqlValue>,
    answer: "rows" | "count",
  ) {
    if (this.#over) throw new TypeError("a step that is over sends nothing")
    const text = inSchema(sql, this.#wire.schema)
    // The driver's type wants a mutable array and does not write to it.
    const config = { text, values: [...values], answer }
    return this.#client.query(this.#wire.prepared ? { ...config, name } : config).catch((error: unknown) => {
      throw this.#causeOf(error)
    })
  }
}

/** What a verb sees of the database while its one transaction is open. */
export class Transaction extends Session {
  /** Store time, read after the transaction began: unix milliseconds by the database's clock. */
  readonly now: number

  constructor(client: Connection, wire: Wire, now: number) {
    super(client, wire)
    this.now = now
  }
}
