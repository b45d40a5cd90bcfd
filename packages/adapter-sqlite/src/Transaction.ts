import type * as Clock from "effect/Clock"
import { sql } from "kysely"
import { type ClockReading, readClocks, StoreTime } from "@kiln/core/domain"
import type { PreparedStatement, RunResult, SqliteDatabase, SqlValue } from "./SqliteDatabase.ts"
import { type Given, type Parameters, query, type RowOf, type Statement, statement } from "./Statement.ts"
import type { Values } from "./columns.ts"

/** Prepared statements, by their text. */
export interface Statements {
  readonly get: (sql: string) => {
    readonly all: (values: ReadonlyArray<SqlValue>) => ReadonlyArray<unknown>
    readonly get: (values: ReadonlyArray<SqlValue>) => unknown
    readonly run: (values: ReadonlyArray<SqlValue>) => RunResult
  }
}

/** Caches the prepared statements of one connection: preparing one costs ten times as much as running it. */
export class PreparedStatements implements Statements {
  readonly #database: SqliteDatabase
  readonly #bySql = new Map<string, PreparedStatement>()

  constructor(database: SqliteDatabase) {
    this.#database = database
  }

  get(text: string): PreparedStatement {
    const known = this.#bySql.get(text)
    if (known !== undefined) return known
    // The connection of a caller may be set to return integers as bigints.
    const prepared = this.#database.prepare(text).safeIntegers(false)
    this.#bySql.set(text, prepared)
    return prepared
  }
}

/** The database as a verb sees it within its transaction. All calls are synchronous, so no other work can interleave. */
export class Transaction {
  readonly #statements: Statements
  readonly #readTime: () => number
  #now: number | undefined
  #erased = false
  #wrote = false
  #hasStoredTime = false

  /** `readTime` returns the store time of this transaction and is called at most once. */
  constructor(statements: Statements, readTime: () => number) {
    this.#statements = statements
    this.#readTime = readTime
  }

  /** Store time of this transaction, Unix milliseconds. */
  get now(): number {
    return (this.#now ??= this.#readTime())
  }

  all<P extends Parameters, Row>(asked: Statement<P, Row>, parameters: P): ReadonlyArray<Row> {
    return this.#statements.get(asked.sql).all(asked.bind(parameters)) as ReadonlyArray<Row>
  }

  get<P extends Parameters, Row>(asked: Statement<P, Row>, parameters: P): Row | undefined {
    return this.#statements.get(asked.sql).get(asked.bind(parameters)) as Row | undefined
  }

  /** Returns the number of changed rows. */
  run<P extends Parameters>(asked: Statement<P, unknown>, parameters: P): number {
    const { changes } = this.#statements.get(asked.sql).run(asked.bind(parameters))
    if (changes > 0) this.#wrote = true
    return changes
  }

  runReturning<P extends Parameters, Row>(asked: Statement<P, Row>, parameters: P): ReadonlyArray<Row> {
    const rows = this.#statements.get(asked.sql).all(asked.bind(parameters)) as ReadonlyArray<Row>
    if (rows.length > 0) this.#wrote = true
    return rows
  }

  /** Runs an INSERT of one row. Returns its row id, or `undefined` if a conflict prevented the insertion. */
  insert<P extends Parameters>(asked: Statement<P, unknown>, parameters: P): number | undefined {
    const { changes, lastInsertRowid } = this.#statements.get(asked.sql).run(asked.bind(parameters))
    if (changes === 0) return undefined
    this.#wrote = true
    return Number(lastInsertRowid)
  }

  /** Whether this transaction changed a row. */
  get wrote(): boolean {
    return this.#wrote
  }

  /** Records that a row of this transaction has its time where `storedTime` finds it. */
  noteStoredTime(): void {
    this.#hasStoredTime = true
  }

  get hasStoredTime(): boolean {
    return this.#hasStoredTime
  }

  /** Records that this transaction erases content, which may still be in the write-ahead log. */
  noteErasure(): void {
    this.#erased = true
  }

  get erased(): boolean {
    return this.#erased
  }
}

/**
 * The latest store time of a committed write of any process. The newest job counts, because its creation does not write
 * `store_time`: a commit of a single job writes about six pages, and this saves one.
 */
export const storedTime = statement(() =>
  query
    .selectFrom("store_time")
    .select((of) =>
      sql<number>`max(latest, coalesce(${of.selectFrom("jobs").select("created_at").where("seq", ">", 0).orderBy("seq", "desc").limit(1)}, 0))`.as(
        "latest",
      ),
    ),
)

/** Runs in the transaction that had this time, and only if that wrote something, so it never causes a commit of its own. */
export const storeTime = statement((given: Given<Values<"store_time", "latest">>) =>
  query.updateTable("store_time").set({ latest: given.latest }).where("latest", "<", given.latest),
)

export type StoredTime = RowOf<typeof storedTime>

/** Store time as this process reads it; see `StoreTime`. */
export class StoreClock {
  readonly #time = new StoreTime()

  /** Returns the store time, which is never before the stored time. */
  now(clock: Clock.Clock, stored: StoredTime | undefined): number {
    return this.at(readClocks(clock), stored)
  }

  at(reading: ClockReading, stored: StoredTime | undefined): number {
    return this.#time.now(reading, stored?.latest)
  }

  takeJump(): number | undefined {
    return this.#time.takeJump()
  }
}
