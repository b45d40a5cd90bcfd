import type { SqliteDatabase } from "./SqliteDatabase.ts"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Semaphore from "effect/Semaphore"
import { type ClockReading, readClocks, StoreUnavailable } from "@kiln/core/domain"
import { CallerTransactions, type CreateOutcome, type NewJob } from "@kiln/core/ports"
import { isBetterSqlite, statementsOf } from "./callers/BetterSqliteDatabase.ts"
import type { CommitWatch } from "./callers/CommitWatch.ts"
import { isKyselyTransaction, isOver, KyselyConversation } from "./callers/KyselyTransaction.ts"
import { replay } from "./callers/Replay.ts"
import { StoreFile } from "./callers/StoreFile.ts"
import type { Database } from "./Database.ts"
import { createJobs } from "./sql/createJobs.ts"
import { isDefect, sqliteCode } from "./sqliteErrors.ts"
import { keepTime, keptTime, type KeptTime, type StoreClock } from "./StoreClock.ts"
import { Transaction } from "./Transaction.ts"

/** What a failing step wrote is taken back, and the caller's transaction goes on as if it had not been tried. */
const savepoint = "SAVEPOINT kiln_create_jobs"
const release = "RELEASE kiln_create_jobs"
const takeBack = "ROLLBACK TO kiln_create_jobs"

type Created = ReadonlyArray<CreateOutcome>
type KyselyHandle = Parameters<typeof isOver>[0]

/**
 * Accepts jobs inside transactions on the store's own file, begun elsewhere: on a connection of better-sqlite3, synchronously
 * or not, or with Kysely over `SqliteDialect`. Store time, decisions and writes are those of `JobStore.createJobs`, through
 * the caller's connection; how durable its commit is, is that connection's `synchronous`.
 *
 * SQLite has one writer. Of two transactions that write, the second one's `BEGIN IMMEDIATE` waits by nature, whoever
 * begins them, and so do the workers of the store: keep such transactions short. One that began with `BEGIN`, read, and
 * writes first with a job fails with `StoreUnavailable` if anything was committed since it read; so does one that
 * meets another writer for longer than its connection's timeout.
 *
 * Through Kysely, send nothing else on the transaction until a call has answered: if it fails, everything since it began is
 * rolled back, to a savepoint.
 */
export const makeSqliteCallerTransactions = (
  db: Database,
  watch: CommitWatch,
): Effect.Effect<CallerTransactions["Service"]> =>
  Clock.clockWith((clock) => {
    const file = new StoreFile(db)
    // Savepoints of two calls must not cross, and two handles may be of one transaction, which none of them says.
    const line = Semaphore.makeUnsafe(1)

    const onConnection = (connection: SqliteDatabase, jobs: ReadonlyArray<NewJob>, clocks: ClockReading): Created => {
      const outcomes = createOn(connection, file, jobs, (kept) => db.time.at(clocks, kept))
      awaitFirst(watch, connection, outcomes, () => !connection.inTransaction)
      return outcomes
    }

    const onKysely = (handle: KyselyHandle, jobs: ReadonlyArray<NewJob>, clocks: ClockReading) =>
      Effect.tryPromise({
        try: () => createThrough(handle, file, jobs, (kept) => db.time.at(clocks, kept)),
        catch: (cause) => cause,
      }).pipe(
        Effect.catch((cause) => (isUnavailable(cause) ? Effect.fail(unavailable(cause)) : Effect.die(cause))),
        Effect.tap((outcomes) => Effect.sync(() => awaitFirst(watch, handle, outcomes, () => isOver(handle)))),
        line.withPermits(1),
        // No savepoint may stay open.
        Effect.uninterruptible,
      )

    return Effect.succeed(
      CallerTransactions.of({
        createJobs: (handle, jobs) =>
          Clock.clockWith((present) => {
            const clocks = readClocks(present)
            if (isKyselyTransaction(handle)) return onKysely(handle, jobs, clocks)
            if (isBetterSqlite(handle)) return attempt(() => onConnection(handle, jobs, clocks))
            return Effect.die(new TypeError(notOurs))
          }),
        synchronous: {
          createJobs: (handle, jobs) => {
            if (!isBetterSqlite(handle)) throw new TypeError(notOursNow)
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

const notOurs =
  "a transaction of this store is a database of better-sqlite3 in a transaction, or a transaction of Kysely"
const notOursNow = "without waiting, a transaction of this store is a database of better-sqlite3 in a transaction"

/** Store time, by what the file keeps of it. */
type TimeOf = (kept: KeptTime | undefined) => ReturnType<StoreClock["at"]>

const createOn = (
  connection: SqliteDatabase,
  file: StoreFile,
  jobs: ReadonlyArray<NewJob>,
  timeOf: TimeOf,
): Created => {
  const statements = statementsOf(connection, file)
  statements.get(savepoint).run([])
  try {
    const now = timeOf(statements.get(keptTime.sql).get([]) as KeptTime | undefined)
    const tx = new Transaction(statements, now)
    const outcomes = createJobs(tx, jobs)
    if (tx.wrote) tx.run(keepTime, { now })
    statements.get(release).run([])
    return outcomes
  } catch (error) {
    // A full disk, for one, has ended the whole transaction by itself.
    if (connection.inTransaction) for (const sql of [takeBack, release]) statements.get(sql).run([])
    throw error
  }
}

/** Job by job: each is decided again for every answer, and what one did is there for the next. */
const createThrough = async (
  handle: KyselyHandle,
  file: StoreFile,
  jobs: ReadonlyArray<NewJob>,
  timeOf: TimeOf,
): Promise<Created> => {
  const conversation = await KyselyConversation.begin(handle, file)
  const run = (sql: string) => conversation.ask({ sql, values: [] })
  await run(savepoint)
  try {
    const [kept] = (await run(keptTime.sql)).rows as ReadonlyArray<KeptTime>
    const now = timeOf(kept)
    const outcomes: Array<CreateOutcome> = []
    for (const job of jobs)
      outcomes.push(
        ...(await replay(
          (statements) => createJobs(new Transaction(statements, now), [job]),
          (text) => conversation.ask(text),
        )),
      )
    if (outcomes.some(({ _tag }) => _tag === "Created"))
      await conversation.ask({ sql: keepTime.sql, values: keepTime.bind({ now }) })
    await run(release)
    return outcomes
  } catch (error) {
    await run(takeBack).then(
      () => run(release),
      // The whole transaction has ended: what was wrong is to be said, not this.
      () => undefined,
    )
    throw error
  }
}

/** One job stands for all of a call: they exist together or not at all. */
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
