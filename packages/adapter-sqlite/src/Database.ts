import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Latch from "effect/Latch"
import * as Random from "effect/Random"
import * as Semaphore from "effect/Semaphore"
import { StoreUnavailable } from "@kiln/core/domain"
import { describeJump } from "@kiln/core/rules"
import type { DatabaseFile } from "./disk/DatabaseFile.ts"
import { explained, fullDisk, isFullDisk, type Room, roomOf } from "./disk/fullDisk.ts"
import { CountedProjects } from "./jobs/CountedProjects.ts"
import { isBusy, isDefect, sqliteCode, type SqliteDatabase } from "./SqliteDatabase.ts"
import { compiled } from "./Statement.ts"
import { PreparedStatements, StoreClock, type StoredTime, storedTime, storeTime, Transaction } from "./Transaction.ts"
const nanosPerMs = 1_000_000n
/** Milliseconds between two attempts while another process holds the lock. The first is short because most commits are. */
const firstPauseMs = 2
const longestPauseMs = 50
/**
 * Pages after which a commit copies the log into the database, 16 MB instead of the usual 4: creating a single job writes eight pages,
 * most of them again and again, and copying takes two more syncs.
 */
const pagesPerCheckpoint = 4_000
/** The same while the reserve is given up, so that the log stays small. */
const fewPages = 16
const pageBytes = 4_096
/**
 * On a full disk, copying the log makes the database longer before the log can be truncated, so the log must not hold more than the
 * reserve can give.
 */
const shareOfReserve = 0.9

/** The outcome of an attempt that met the lock of another connection. Nothing was written. */
class Busy {
  readonly cause: unknown
  constructor(cause: unknown) {
    this.cause = cause
  }
}

interface Step<A> {
  /** The port and its verb, for `StoreUnavailable`. */
  readonly operation: string
  /** Undefined for a single statement that reads. */
  readonly begin: "BEGIN" | "BEGIN IMMEDIATE" | undefined
  /** Runs first, without a transaction. See `writeAtOnce`. */
  readonly atOnce?: ((tx: Transaction) => A | undefined) | undefined
  readonly work: (tx: Transaction) => A
}

/**
 * One connection. A transaction begins, works and ends in one synchronous step, so other fibers cannot interleave and
 * interruption cannot split it.
 */
export class Database {
  readonly connection: SqliteDatabase
  readonly file: DatabaseFile
  readonly time = new StoreClock()
  readonly counted = new CountedProjects()
  /** Opened by every transaction that erased content. */
  readonly erasures = Latch.makeUnsafe(false)
  /** Opened with `erasures`, and open at first, for what was erased before. */
  readonly freed = Latch.makeUnsafe(true)
  readonly #statements: PreparedStatements
  #usesStoreTime = false
  readonly #retryForMs: number
  readonly #writers = Semaphore.makeUnsafe(1)
  #waiting = 0
  /** Set for a file without kiln's tables that is opened only for reading. */
  #hasNoStoredTime = false

  constructor(connection: SqliteDatabase, options: { readonly retryForMs: number; readonly file: DatabaseFile }) {
    this.connection = connection
    this.file = options.file
    this.#retryForMs = options.retryForMs
    this.#statements = new PreparedStatements(connection)
  }

  /** From now on transactions use store time. Before this call, for migrations, they use the clock's time. */
  useStoreTime(): void {
    this.#usesStoreTime = true
  }

  /**
   * Runs `work` in a transaction that holds the write lock from its beginning, so what it has read cannot change before it
   * writes. `work` may run more than once. An exception in `work` is a defect and rolls everything back.
   */
  write<A>(operation: string, work: (tx: Transaction) => A): Effect.Effect<A, StoreUnavailable> {
    return this.#run({ operation, begin: "BEGIN IMMEDIATE", work })
  }

  /**
   * Like `write`, except that `atOnce` runs first, which runs a single statement. That is a transaction without BEGIN and COMMIT, and
   * its time is read before the lock is acquired: the statement must write nothing if its time is before the stored time. If
   * `atOnce` returns `undefined`, it has written nothing, and `work` runs.
   */
  writeAtOnce<A>(
    operation: string,
    atOnce: (tx: Transaction) => A | undefined,
    work: (tx: Transaction) => A,
  ): Effect.Effect<A, StoreUnavailable> {
    return this.#run({ operation, begin: "BEGIN IMMEDIATE", atOnce, work })
  }

  /** Runs `work` on one snapshot. Readers and the writer do not block each other. */
  read<A>(operation: string, work: (tx: Transaction) => A): Effect.Effect<A, StoreUnavailable> {
    return this.#run({ operation, begin: "BEGIN", work })
  }

  /** Runs `work`, which runs a single statement. That has a snapshot without a transaction. */
  readAtOnce<A>(operation: string, work: (tx: Transaction) => A): Effect.Effect<A, StoreUnavailable> {
    return this.#run({ operation, begin: undefined, work })
  }

  #run<A>(step: Step<A>): Effect.Effect<A, StoreUnavailable> {
    return Clock.clockWith((clock) => {
      const writes = step.begin === "BEGIN IMMEDIATE"
      const attempt = writes && this.#waiting > 0 ? undefined : this.#attempt(step, clock)
      if (attempt !== undefined && !(attempt instanceof Busy)) return this.#logJump(attempt)
      // A write that has waited reads the time once it holds the lock.
      const retry = this.#retry({ ...step, atOnce: undefined }, clock)
      return writes ? this.#queueWriter(retry) : retry
    })
  }

  /**
   * SQLite's busy timeout blocks the event loop, so it is short and this sleeps between attempts. The time limit is checked
   * rather than enforced by an interruption, because callers may be uninterruptible.
   */
  #retry<A>(step: Step<A>, clock: Clock.Clock): Effect.Effect<A, StoreUnavailable> {
    const givesUpAt = clock.monotonicTimeNanosUnsafe() + BigInt(this.#retryForMs) * nanosPerMs
    return Effect.gen({ self: this }, function* () {
      for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(2 * pauseMs, longestPauseMs)) {
        const attempt = this.#attempt(step, clock)
        if (!(attempt instanceof Busy)) return yield* this.#logJump(attempt)
        if (clock.monotonicTimeNanosUnsafe() >= givesUpAt)
          return yield* Effect.fail(new StoreUnavailable({ operation: step.operation, cause: attempt.cause }))
        yield* Effect.sleep(pauseMs * (yield* Random.nextBetween(0.5, 1)))
      }
    })
  }

  #logJump<A>(exit: Exit.Exit<A, StoreUnavailable>): Effect.Effect<A, StoreUnavailable> {
    const jumpMs = this.time.takeJump()
    return jumpMs === undefined ? exit : Effect.andThen(Effect.logWarning(describeJump(jumpMs)), exit)
  }

  #storedTime(): StoredTime | undefined {
    if (!this.#usesStoreTime || this.#hasNoStoredTime) return undefined
    try {
      return this.#statements.get(compiled(storedTime).sql).get([]) as StoredTime | undefined
    } catch (error) {
      if (!(error instanceof Error && error.message.startsWith("no such table"))) throw error
      this.#hasNoStoredTime = true
      return undefined
    }
  }

  #timeAt(clock: Clock.Clock, stored: StoredTime | undefined): number {
    return this.#usesStoreTime ? this.time.now(clock, stored) : Math.floor(clock.currentTimeMillisUnsafe())
  }

  /** Lets one waiting writer attempt at a time: otherwise each would block the event loop in turn. */
  #queueWriter<A>(retry: Effect.Effect<A, StoreUnavailable>): Effect.Effect<A, StoreUnavailable> {
    return Effect.acquireUseRelease(
      Effect.sync(() => {
        this.#waiting += 1
      }),
      () => this.#writers.withPermits(1)(retry),
      () =>
        Effect.sync(() => {
          this.#waiting -= 1
        }),
    )
  }

  /** Sets after how many pages a commit copies the log into the database. */
  limitLog(pages: "usual" | "few"): void {
    const { reserve } = this.file
    const most = reserve.isWanted
      ? Math.max(fewPages, (shareOfReserve * reserve.bytes) / pageBytes)
      : pagesPerCheckpoint
    const limit = pages === "few" ? fewPages : Math.floor(Math.min(pagesPerCheckpoint, most))
    if (this.connection.open) this.connection.pragma(`wal_autocheckpoint = ${limit}`)
  }

  /**
   * Gives up the reserve, and copies the log into the database, which also gives room: the log may be larger than what it holds.
   * Returns whether an attempt may now succeed that met a full disk.
   */
  #makeRoom(): boolean {
    const hasReserve = this.file.reserve.giveUp()
    this.limitLog("few")
    try {
      this.connection.pragma("wal_checkpoint(TRUNCATE)")
      return true
    } catch {
      return hasReserve
    }
  }

  /**
   * Copies the log into the database, so that the next commits overwrite it and need no room for it. The disk keeps its reserve. Returns
   * whether that was possible: pages that are new to the database need room there.
   */
  #reuseLog(): boolean {
    try {
      this.connection.pragma("wal_checkpoint(RESTART)")
      return true
    } catch {
      return false
    }
  }

  #makeRoomFor(room: Room): boolean {
    if (room === "grows") return false
    return room === "frees" ? this.#makeRoom() : this.#reuseLog()
  }

  /** Returns why an operation must not begin: the file is not in its place, or the room is needed to delete jobs. */
  refusal(operation: string, use: "read" | "write"): Error | undefined {
    const absence = this.file.absence(use)
    if (absence !== undefined) return absence
    return roomOf(operation) === "grows" && this.file.reserve.isSpent ? fullDisk(this.file.path) : undefined
  }

  #attempt<A>(step: Step<A>, clock: Clock.Clock, isRetry = false): Exit.Exit<A, StoreUnavailable> | Busy {
    const { atOnce, begin, operation, work } = step
    const refusal = this.refusal(operation, begin === "BEGIN IMMEDIATE" ? "write" : "read")
    if (refusal !== undefined && this.connection.open) return unavailable(operation, refusal)
    try {
      const done = atOnce?.(new Transaction(this.#statements, () => this.#timeAt(clock, undefined)))
      if (done !== undefined) return Exit.succeed(done)
      if (begin !== undefined) this.#statements.get(begin).run([])
      // A writer reads the time after acquiring the lock, so that times are in the order of the transactions. A reader reads it on
      // demand, since many verbs that read do not need it.
      const writes = begin === "BEGIN IMMEDIATE"
      const stored = writes ? this.#storedTime() : undefined
      const written = writes ? this.#timeAt(clock, stored) : undefined
      const tx = new Transaction(this.#statements, () => written ?? this.#timeAt(clock, this.#storedTime()))
      const result = work(tx)
      if (tx.wrote && !tx.hasStoredTime && stored !== undefined && stored.latest < tx.now)
        tx.run(storeTime, { latest: tx.now })
      if (begin !== undefined) this.#statements.get("COMMIT").run([])
      if (tx.erased) {
        this.erasures.openUnsafe()
        this.freed.openUnsafe()
      }
      return Exit.succeed(result)
    } catch (error) {
      if (!this.connection.open) return unavailable(operation, "the store is closed")
      // Some errors have already rolled the transaction back.
      if (this.connection.inTransaction) this.#statements.get("ROLLBACK").run([])
      const code = sqliteCode(error)
      if (code === undefined || isDefect(code)) return Exit.die(error)
      if (isBusy(code)) return new Busy(error)
      const cause = explained(error, this.file.path)
      if (isFullDisk(cause) && !isRetry && this.#makeRoomFor(roomOf(operation))) return this.#attempt(step, clock, true)
      return unavailable(operation, cause)
    }
  }
}

const unavailable = (operation: string, cause: unknown): Exit.Exit<never, StoreUnavailable> =>
  Exit.fail(new StoreUnavailable({ operation, cause }))
