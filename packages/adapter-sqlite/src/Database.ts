import type { SqliteDatabase } from "./SqliteDatabase.ts"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Latch from "effect/Latch"
import * as Random from "effect/Random"
import * as Semaphore from "effect/Semaphore"
import { describeJump, StoreUnavailable } from "@kiln/core/domain"
import { isBusy, isDefect, sqliteCode } from "./sqliteErrors.ts"
import { keepTime, keptTime, StoreClock } from "./StoreClock.ts"
import { PreparedStatements, Transaction } from "./Transaction.ts"

const nanosPerMs = 1_000_000n
/** Milliseconds between two tries while another process holds the lock: short at first, since most commits are. */
const firstPauseMs = 2
const longestPauseMs = 50

/** An attempt that met another connection's lock. Nothing was written. */
class Busy {
  readonly cause: unknown
  constructor(cause: unknown) {
    this.cause = cause
  }
}

interface Step<A> {
  /** Goes into `StoreUnavailable`: the port and its verb. */
  readonly operation: string
  readonly begin: "BEGIN" | "BEGIN IMMEDIATE"
  readonly work: (tx: Transaction) => A
}

/**
 * One connection. A transaction begins, works and ends in one synchronous step: no other fiber can
 * come in between and no interruption can split it.
 */
export class Database {
  readonly connection: SqliteDatabase
  readonly time = new StoreClock()
  /** Opened by every transaction that erased something. */
  readonly erasures = Latch.makeUnsafe(false)
  readonly #statements: PreparedStatements
  #countsTime = false
  readonly #retryForMs: number
  readonly #line = Semaphore.makeUnsafe(1)
  #waiting = 0
  /** Set for a file that is only read and has none of kiln's tables. */
  #keepsNoTime = false

  constructor(connection: SqliteDatabase, options: { readonly retryForMs: number }) {
    this.connection = connection
    this.#retryForMs = options.retryForMs
    this.#statements = new PreparedStatements(connection)
  }

  /** Counts store time from now on, beginning with what the file keeps. Before that, for migrations, times are the clock's. */
  countTime(): void {
    this.#countsTime = true
  }

  /**
   * Runs `work` in a transaction that holds the write lock from its beginning, and so never finds
   * that what it read has changed. `work` may run more than once; what it throws is a defect, and
   * then nothing at all was written.
   */
  write<A>(operation: string, work: (tx: Transaction) => A): Effect.Effect<A, StoreUnavailable> {
    return this.#run({ operation, begin: "BEGIN IMMEDIATE", work })
  }

  /** Runs `work` on one snapshot. Readers neither wait for the writer nor hold it up. */
  read<A>(operation: string, work: (tx: Transaction) => A): Effect.Effect<A, StoreUnavailable> {
    return this.#run({ operation, begin: "BEGIN", work })
  }

  #run<A>(step: Step<A>): Effect.Effect<A, StoreUnavailable> {
    return Clock.clockWith((clock) => {
      const inLine = step.begin === "BEGIN IMMEDIATE"
      const attempt = inLine && this.#waiting > 0 ? undefined : this.#attempt(step, clock)
      if (attempt !== undefined && !(attempt instanceof Busy)) return this.#sayJump(attempt)
      const retry = this.#retry(step, clock)
      return inLine ? this.#inLine(retry) : retry
    })
  }

  /**
   * SQLite's own waiting blocks the event loop, so it is kept short and the rest is slept. The end
   * is a time that is checked, not a timeout that interrupts, because callers may have made
   * themselves uninterruptible.
   */
  #retry<A>(step: Step<A>, clock: Clock.Clock): Effect.Effect<A, StoreUnavailable> {
    const givesUpAt = clock.monotonicTimeNanosUnsafe() + BigInt(this.#retryForMs) * nanosPerMs
    return Effect.gen({ self: this }, function* () {
      for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(2 * pauseMs, longestPauseMs)) {
        const attempt = this.#attempt(step, clock)
        if (!(attempt instanceof Busy)) return yield* this.#sayJump(attempt)
        if (clock.monotonicTimeNanosUnsafe() >= givesUpAt)
          return yield* Effect.fail(new StoreUnavailable({ operation: step.operation, cause: attempt.cause }))
        yield* Effect.sleep(pauseMs * (yield* Random.nextBetween(0.5, 1)))
      }
    })
  }

  #sayJump<A>(exit: Exit.Exit<A, StoreUnavailable>): Effect.Effect<A, StoreUnavailable> {
    const jumpMs = this.time.takeJump()
    return jumpMs === undefined ? exit : Effect.andThen(Effect.logWarning(describeJump(jumpMs)), exit)
  }

  #keptTime(): { readonly latest: number } | undefined {
    if (!this.#countsTime || this.#keepsNoTime) return undefined
    try {
      return this.#statements.get(keptTime.sql).get([]) as { readonly latest: number } | undefined
    } catch (error) {
      if (!(error instanceof Error && error.message.startsWith("no such table"))) throw error
      this.#keepsNoTime = true
      return undefined
    }
  }

  /** Of the writers that wait, one tries: otherwise each would block in turn, and the gaps would add up. */
  #inLine<A>(retry: Effect.Effect<A, StoreUnavailable>): Effect.Effect<A, StoreUnavailable> {
    return Effect.acquireUseRelease(
      Effect.sync(() => {
        this.#waiting += 1
      }),
      () => this.#line.withPermits(1)(retry),
      () =>
        Effect.sync(() => {
          this.#waiting -= 1
        }),
    )
  }

  #attempt<A>({ begin, operation, work }: Step<A>, clock: Clock.Clock): Exit.Exit<A, StoreUnavailable> | Busy {
    try {
      this.#statements.get(begin).run([])
      // After the lock was won, so that times are in the order of the transactions.
      const kept = this.#keptTime()
      const now = this.#countsTime ? this.time.now(clock, kept) : Math.floor(clock.currentTimeMillisUnsafe())
      const tx = new Transaction(this.#statements, now)
      const result = work(tx)
      if (tx.wrote && kept !== undefined && kept.latest < now) tx.run(keepTime, { now })
      this.#statements.get("COMMIT").run([])
      if (tx.erased) this.erasures.openUnsafe()
      return Exit.succeed(result)
    } catch (error) {
      if (!this.connection.open) return unavailable(operation, "the store is closed")
      // Some errors have rolled back by themselves.
      if (this.connection.inTransaction) this.#statements.get("ROLLBACK").run([])
      const code = sqliteCode(error)
      if (code === undefined || isDefect(code)) return Exit.die(error)
      return isBusy(code) ? new Busy(error) : unavailable(operation, error)
    }
  }
}

const unavailable = (operation: string, cause: unknown): Exit.Exit<never, StoreUnavailable> =>
  Exit.fail(new StoreUnavailable({ operation, cause }))
