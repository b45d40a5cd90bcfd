import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Semaphore from "effect/Semaphore"
import { type ClockReading, readClocks, StoreUnavailable } from "@kiln/core/domain"
import { CallerTransactions, type CreateOutcome, type NewJob } from "@kiln/core/ports"
import type { CommitWatch } from "../CommitWatch.ts"
import type { Database } from "../Database.ts"
import { createJobs } from "../jobs/createJobs.ts"
import type { SqliteDatabase } from "../SqliteDatabase.ts"
import { isDefect, sqliteCode } from "../sqliteErrors.ts"
import { type StoredTime, storedTime, storeTime } from "../StoreClock.ts"
import { Transaction } from "../Transaction.ts"
import { isBetterSqlite, statementsOf } from "./BetterSqliteDatabase.ts"
import { isKyselyTransaction, isOver, KyselyConnection, type KyselyHandle } from "./KyselyTransaction.ts"
import { runWithAnswers } from "./runWithAnswers.ts"
import { StoreFile } from "./StoreFile.ts"

/** If a step fails, its writes are rolled back, and the caller's transaction continues without them. */
const savepoint = "SAVEPOINT kiln_create_jobs"
const release = "RELEASE kiln_create_jobs"
const rollBack = "ROLLBACK TO kiln_create_jobs"

type Created = ReadonlyArray<CreateOutcome>

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
    const file = new StoreFile(db)
    // Savepoints of two calls must not overlap, and two handles may belong to one transaction without saying so.
    const oneAtATime = Semaphore.makeUnsafe(1)

    const onConnection = (connection: SqliteDatabase, jobs: ReadonlyArray<NewJob>, clocks: ClockReading): Created => {
      const outcomes = createOn(db, connection, file, jobs, (stored) => db.time.at(clocks, stored))
      awaitFirst(watch, connection, outcomes, () => !connection.inTransaction)
      return outcomes
    }

    const onKysely = (handle: KyselyHandle, jobs: ReadonlyArray<NewJob>, clocks: ClockReading) =>
      Effect.tryPromise({
        try: () => createThrough(handle, file, jobs, (stored) => db.time.at(clocks, stored)),
        catch: (cause) => cause,
      }).pipe(
        Effect.catch((cause) => (isUnavailable(cause) ? Effect.fail(unavailable(cause)) : Effect.die(cause))),
        Effect.tap((outcomes) => Effect.sync(() => awaitFirst(watch, handle, outcomes, () => isOver(handle)))),
        oneAtATime.withPermits(1),
        // An interruption must not leave the savepoint open.
        Effect.uninterruptible,
      )

    return Effect.succeed(
      CallerTransactions.of({
        createJobs: (handle, jobs) =>
          Clock.clockWith((present) => {
            const clocks = readClocks(present)
            const refusal = refusalOf(db, present)
            if (refusal !== undefined) return Effect.fail(refusal)
            if (isKyselyTransaction(handle)) return onKysely(handle, jobs, clocks)
            if (isBetterSqlite(handle)) return attempt(() => onConnection(handle, jobs, clocks))
            return Effect.die(new TypeError(unknownHandle))
          }),
        synchronous: {
          createJobs: (handle, jobs) => {
            if (!isBetterSqlite(handle)) throw new TypeError(notSynchronous)
            const refusal = refusalOf(db, clock)
            if (refusal !== undefined) throw refusal
            try {
              return onConnection(handle, jobs, readClocks(clock))
            } catch (cause) {
              throw isUnavailable(cause) ? unavailable(cause) : cause
            }
          },
        },
      }),
    )
  })

/** The caller's connection is another one, but its file is the store's. */
const refusalOf = (db: Database, clock: Clock.Clock): StoreUnavailable | undefined => {
  const cause = db.refusal("JobStore.createJobs", clock, true)
  return cause && new StoreUnavailable({ operation: "CallerTransactions.createJobs", cause })
}

const unknownHandle = "expected a better-sqlite3 database in a transaction, or a Kysely transaction"
const notSynchronous = "a synchronous submission needs a better-sqlite3 database in a transaction"

/** Returns the store time, given the stored time of the file. */
type TimeOf = (stored: StoredTime | undefined) => number

const createOn = (
  { counted }: Database,
  connection: SqliteDatabase,
  file: StoreFile,
  jobs: ReadonlyArray<NewJob>,
  timeOf: TimeOf,
): Created => {
  const statements = statementsOf(connection, file)
  statements.get(savepoint).run([])
  try {
    const now = timeOf(statements.get(storedTime.sql).get([]) as StoredTime | undefined)
    const tx = new Transaction(statements, () => now)
    const outcomes = createJobs(tx, jobs, counted)
    if (tx.wrote) tx.run(storeTime, { latest: now })
    statements.get(release).run([])
    return outcomes
  } catch (error) {
    // Some errors, such as a full disk, have already ended the whole transaction.
    if (connection.inTransaction) for (const sql of [rollBack, release]) statements.get(sql).run([])
    throw error
  }
}

/** Job by job: each is decided again for every answer, and its writes are visible to the next. */
const createThrough = async (
  handle: KyselyHandle,
  file: StoreFile,
  jobs: ReadonlyArray<NewJob>,
  timeOf: TimeOf,
): Promise<Created> => {
  const connection = await KyselyConnection.open(handle, file)
  const run = (sql: string) => connection.ask({ sql, values: [] })
  await run(savepoint)
  try {
    const [stored] = (await run(storedTime.sql)).rows as ReadonlyArray<StoredTime>
    const now = timeOf(stored)
    const outcomes: Array<CreateOutcome> = []
    for (const job of jobs)
      outcomes.push(
        ...(await runWithAnswers(
          (statements) => createJobs(new Transaction(statements, () => now), [job]),
          (text) => connection.ask(text),
        )),
      )
    if (outcomes.some(({ _tag }) => _tag === "Created"))
      await connection.ask({ sql: storeTime.sql, values: storeTime.bind({ latest: now }) })
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

/** The jobs of one call are committed together, so waiting for the first one is enough. */
const awaitFirst = (watch: CommitWatch, transaction: object, outcomes: Created, over: () => boolean): void => {
  const created = outcomes.find((outcome) => outcome._tag === "Created")
  if (created !== undefined) watch.awaitCommit(transaction, created.job.id, over)
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
