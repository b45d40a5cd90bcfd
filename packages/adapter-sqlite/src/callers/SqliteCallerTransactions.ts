import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Semaphore from "effect/Semaphore"
import { type JobId, StoreUnavailable } from "@kiln/core/domain"
import { type ClockReading, readClocks } from "@kiln/core/rules"
import {
  CallerTransactions,
  type CreateOutcome,
  type NewJob,
  type SignalOutcome,
  type SignalRequest,
} from "@kiln/core/ports"
import type { CommitWatch } from "../CommitWatch.ts"
import type { Database } from "../Database.ts"
import { createJobs } from "../jobs/createJobs.ts"
import { signalJobs } from "../jobs/waitingJobs.ts"
import { isDefect, sqliteCode, type SqliteDatabase } from "../SqliteDatabase.ts"
import { compiled } from "../Statement.ts"
import { type StoredTime, storedTime, storeTime, Transaction } from "../Transaction.ts"
import {
  isBetterSqlite,
  isKyselyTransaction,
  isOver,
  KyselyConnection,
  type KyselyHandle,
  runWithAnswers,
  statementsOf,
  StoreFile,
} from "./handles.ts"
/** If a step fails, its writes are rolled back, and the caller's transaction continues without them. */
const savepoint = "SAVEPOINT kiln_create_jobs"
const release = "RELEASE kiln_create_jobs"
const rollBack = "ROLLBACK TO kiln_create_jobs"

/**
 * Accepts jobs inside transactions on the store's own file that a caller began: on a connection of better-sqlite3, synchronously
 * or not, or with Kysely over `SqliteDialect`. Store time, decisions and writes are those of `JobStore.createJobs`, on the
 * caller's connection; the `synchronous` setting of that connection determines how durable its commit is.
 *
 * SQLite has one writer. A second `BEGIN IMMEDIATE` waits for a transaction that has written, and so do the workers of the store:
 * keep such transactions short. A transaction that began with `BEGIN`, read, and first writes with a job fails with
 * `StoreUnavailable` if anything was committed since it read, and so does one that waits for another writer for longer than its
 * connection's timeout.
 *
 * With Kysely, send nothing else on the transaction until a call has returned: if the call fails, everything since its beginning
 * is rolled back to a savepoint.
 */
export const makeSqliteCallerTransactions = (
  db: Database,
  watch: CommitWatch,
): Effect.Effect<CallerTransactions["Service"]> =>
  Clock.clockWith((clock) => {
    const callers = new Callers(db, watch, clock)
    const creating: CallerVerb<NewJob, CreateOutcome> = {
      decide: (tx, jobs, counted) => createJobs(tx, jobs, counted),
      hasWritten: ({ _tag }) => _tag === "Created",
      awaited: ({ id }) => ({ jobId: id }),
    }
    const signaling: CallerVerb<SignalRequest, SignalOutcome> = {
      decide: signalJobs,
      hasWritten: (outcome) => outcome === "Accepted",
      awaited: ({ jobId, name }) => ({ jobId, signal: name }),
    }
    return Effect.succeed(
      CallerTransactions.of({
        createJobs: callers.run(creating),
        signalJobs: callers.run(signaling),
        synchronous: { createJobs: callers.runSync(creating), signalJobs: callers.runSync(signaling) },
      }),
    )
  })

/** A verb on a caller's connection. */
interface CallerVerb<Item, Outcome> {
  readonly decide: (
    tx: Transaction,
    items: ReadonlyArray<Item>,
    counted?: Database["counted"],
  ) => ReadonlyArray<Outcome>
  readonly hasWritten: (outcome: Outcome) => boolean
  /** The row that is there once the transaction has committed. */
  readonly awaited: (item: Item) => { readonly jobId: JobId; readonly signal?: string }
}

class Callers {
  readonly #db: Database
  readonly #watch: CommitWatch
  readonly #clock: Clock.Clock
  readonly #file: StoreFile
  // Savepoints of two calls must not overlap, and two handles may belong to one transaction without saying so.
  readonly #oneAtATime = Semaphore.makeUnsafe(1)

  constructor(db: Database, watch: CommitWatch, clock: Clock.Clock) {
    this.#db = db
    this.#watch = watch
    this.#clock = clock
    this.#file = new StoreFile(db)
  }

  readonly run =
    <Item, Outcome>(verb: CallerVerb<Item, Outcome>) =>
    (handle: unknown, items: ReadonlyArray<Item>): Effect.Effect<ReadonlyArray<Outcome>, StoreUnavailable> =>
      Clock.clockWith((present) => {
        const clocks = readClocks(present)
        const refusal = refusalOf(this.#db)
        if (refusal !== undefined) return Effect.fail(refusal)
        if (isKyselyTransaction(handle)) return this.#onKysely(verb, handle, items, clocks)
        if (isBetterSqlite(handle)) return attempt(() => this.#onConnection(verb, handle, items, clocks))
        return Effect.die(new TypeError(unknownHandle))
      })

  readonly runSync =
    <Item, Outcome>(verb: CallerVerb<Item, Outcome>) =>
    (handle: unknown, items: ReadonlyArray<Item>): ReadonlyArray<Outcome> => {
      if (!isBetterSqlite(handle)) throw new TypeError(notSynchronous)
      const refusal = refusalOf(this.#db)
      if (refusal !== undefined) throw refusal
      try {
        return this.#onConnection(verb, handle, items, readClocks(this.#clock))
      } catch (cause) {
        throw isUnavailable(cause) ? unavailable(cause) : cause
      }
    }

  #onConnection<Item, Outcome>(
    verb: CallerVerb<Item, Outcome>,
    connection: SqliteDatabase,
    items: ReadonlyArray<Item>,
    clocks: ClockReading,
  ): ReadonlyArray<Outcome> {
    const { counted, time } = this.#db
    const outcomes = runOn(
      connection,
      this.#file,
      (tx) => verb.decide(tx, items, counted),
      (stored) => time.at(clocks, stored),
    )
    this.#awaitFirst(verb, connection, items, outcomes, () => !connection.inTransaction)
    return outcomes
  }

  #onKysely<Item, Outcome>(
    verb: CallerVerb<Item, Outcome>,
    handle: KyselyHandle,
    items: ReadonlyArray<Item>,
    clocks: ClockReading,
  ): Effect.Effect<ReadonlyArray<Outcome>, StoreUnavailable> {
    const timeOf: TimeOf = (stored) => this.#db.time.at(clocks, stored)
    return Effect.tryPromise({
      try: () => runThrough(handle, this.#file, items, verb, timeOf),
      catch: (cause) => cause,
    }).pipe(
      Effect.catch((cause) => (isUnavailable(cause) ? Effect.fail(unavailable(cause)) : Effect.die(cause))),
      Effect.tap((outcomes) =>
        Effect.sync(() => this.#awaitFirst(verb, handle, items, outcomes, () => isOver(handle))),
      ),
      this.#oneAtATime.withPermits(1),
      // An interruption must not leave the savepoint open.
      Effect.uninterruptible,
    )
  }

  /** What one call writes is committed together, so waiting for the first of it is enough. */
  #awaitFirst<Item, Outcome>(
    { awaited, hasWritten }: CallerVerb<Item, Outcome>,
    transaction: object,
    items: ReadonlyArray<Item>,
    outcomes: ReadonlyArray<Outcome>,
    over: () => boolean,
  ): void {
    const first = items[outcomes.findIndex(hasWritten)]
    if (first === undefined) return
    const { jobId, signal } = awaited(first)
    this.#watch.awaitCommit(transaction, jobId, over, signal)
  }
}

/** The caller's connection is another one, but its file is the store's. */
const refusalOf = (db: Database): StoreUnavailable | undefined => {
  const cause = db.refusal("JobStore.createJobs", "write")
  return cause && new StoreUnavailable({ operation: "CallerTransactions.createJobs", cause })
}

const unknownHandle = "expected a better-sqlite3 database in a transaction, or a Kysely transaction"
const notSynchronous = "a synchronous submission needs a better-sqlite3 database in a transaction"

/** Returns the store time, given the stored time of the file. */
type TimeOf = (stored: StoredTime | undefined) => number

const runOn = <A>(connection: SqliteDatabase, file: StoreFile, run: (tx: Transaction) => A, timeOf: TimeOf): A => {
  const statements = statementsOf(connection, file)
  statements.get(savepoint).run([])
  try {
    const now = timeOf(statements.get(compiled(storedTime).sql).get([]) as StoredTime | undefined)
    const tx = new Transaction(statements, () => now)
    const outcomes = run(tx)
    if (tx.wrote) tx.run(storeTime, { latest: now })
    statements.get(release).run([])
    return outcomes
  } catch (error) {
    // Some errors, such as a full disk, have already ended the whole transaction.
    if (connection.inTransaction) for (const sql of [rollBack, release]) statements.get(sql).run([])
    throw error
  }
}

/** Item by item: each is decided again for every answer, and its writes are visible to the next. */
const runThrough = async <Item, Outcome>(
  handle: KyselyHandle,
  file: StoreFile,
  items: ReadonlyArray<Item>,
  { decide, hasWritten }: CallerVerb<Item, Outcome>,
  timeOf: TimeOf,
): Promise<ReadonlyArray<Outcome>> => {
  const connection = await KyselyConnection.open(handle, file)
  const run = (sql: string) => connection.ask({ sql, values: [] })
  await run(savepoint)
  try {
    const [stored] = (await run(compiled(storedTime).sql)).rows as ReadonlyArray<StoredTime>
    const now = timeOf(stored)
    const within = <A>(step: (tx: Transaction) => A): Promise<A> =>
      runWithAnswers(
        (statements) => step(new Transaction(statements, () => now)),
        (text) => connection.ask(text),
      )
    const outcomes: Array<Outcome> = []
    for (const item of items) outcomes.push(...(await within((tx) => decide(tx, [item]))))
    if (outcomes.some(hasWritten)) await within((tx) => tx.run(storeTime, { latest: now }))
    await run(release)
    return outcomes
  } catch (error) {
    await run(rollBack).then(
      () => run(release),
      // The whole transaction has ended. The original error matters, not this one.
      () => undefined,
    )
    throw error
  }
}

const isUnavailable = (cause: unknown): boolean => {
  const code = sqliteCode(cause)
  return code !== undefined && !isDefect(code)
}

const unavailable = (cause: unknown): StoreUnavailable =>
  new StoreUnavailable({ operation: "CallerTransactions.createJobs", cause })

const attempt = <A>(run: () => A): Effect.Effect<A, StoreUnavailable> =>
  Effect.suspend(() => {
    try {
      return Effect.succeed(run())
    } catch (cause) {
      return isUnavailable(cause) ? Effect.fail(unavailable(cause)) : Effect.die(cause)
    }
  })
