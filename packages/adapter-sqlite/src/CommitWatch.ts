import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import type * as Scope from "effect/Scope"
import type { JobId } from "@kiln/core/domain"
import type { Database } from "./Database.ts"
import type { PreparedStatement } from "./SqliteDatabase.ts"
import { compiled } from "./Statement.ts"
import { type StoredTime, storedTime } from "./Transaction.ts"

/** Milliseconds between two checks: short at first, since most transactions are, and long for one that stays open. */
const firstPauseMs = 5
const usualPauseMs = 25
/** The same for a worker, which listens as long as it runs: while others have written lately, and while it seems to be alone. */
const busyPauseMs = 100
const alonePauseMs = 1_000
const aloneAfterMs = 600_000
const latePauseMs = 1_000
const lateAfterMs = 60_000
const givesUpAfterMs = 600_000
/** Maximum number of jobs per transaction to look for. They are committed together, except those rolled back to a savepoint. */
const maxJobsPerTransaction = 16

/** A row that a transaction has written: a job, or a signal of it. */
interface WrittenRow {
  readonly jobId: JobId
  readonly signal: string | undefined
}

/** Times are milliseconds of the monotonic clock. */
interface Listener {
  /** Called at each check, with whether another connection has committed since the last one. */
  readonly check: (now: number, changed: boolean) => void
  /** Milliseconds between two checks. */
  readonly pauseMs: (now: number) => number
}

interface Awaited {
  readonly isOver: () => boolean
  rows: ReadonlyArray<WrittenRow>
  /** Monotonic time since which nothing was added; `undefined` until the next check. */
  since: number | undefined
}

/**
 * Detects commits of other connections, which SQLite does not announce. While someone listens, this polls `PRAGMA data_version`, a
 * number in shared memory that changes whenever another connection of any process commits, and then looks for the awaited jobs.
 */
export class CommitWatch {
  readonly #version: PreparedStatement
  readonly #job: PreparedStatement
  readonly #signal: PreparedStatement
  readonly #time: PreparedStatement
  readonly #awaited = new Map<object, Awaited>()
  readonly #listeners = new Set<Listener>()
  readonly #news = Latch.makeUnsafe(false)
  #seen: unknown

  constructor({ connection }: Pick<Database, "connection">) {
    this.#version = connection.prepare("PRAGMA data_version")
    this.#time = connection.prepare(compiled(storedTime).sql)
    this.#job = connection.prepare("SELECT 1 FROM kiln_jobs WHERE id = ?")
    this.#signal = connection.prepare(
      "SELECT 1 FROM kiln_signals WHERE job_seq = (SELECT seq FROM kiln_jobs WHERE id = ?) AND name = ?",
    )
  }

  /** Looks for a job of this transaction, or a signal of it, until `isOver` returns true or for ten minutes. */
  awaitCommit(transaction: object, jobId: JobId, isOver: () => boolean, signal?: string): void {
    const rows = this.#awaited.get(transaction)?.rows ?? []
    this.#awaited.set(transaction, {
      isOver,
      rows: [...rows, { jobId, signal }].slice(-maxJobsPerTransaction),
      since: undefined,
    })
    this.#news.openUnsafe()
  }

  /** Calls `hear` after commits of other connections, until the scope closes. */
  onCommit(hear: () => void): Effect.Effect<void, never, Scope.Scope> {
    return this.#listen({ check: (_, changed) => void (changed && hear()), pauseMs: () => usualPauseMs })
  }

  #listen(listener: Listener): Effect.Effect<void, never, Scope.Scope> {
    return Effect.acquireRelease(
      Effect.sync(() => {
        if (this.#listeners.size === 0 && this.#awaited.size === 0) this.#changed()
        this.#listeners.add(listener)
        this.#news.openUnsafe()
      }),
      () => Effect.sync(() => void this.#listeners.delete(listener)),
    )
  }

  /**
   * The same for a worker, which answers each call with a claim: only after commits that moved store time, which those of the embedding
   * program to its own tables do not. Most workers are alone with their file. One that has heard nothing yet, or for ten minutes, looks
   * once a second.
   */
  onWrite(hear: () => void): Effect.Effect<void, never, Scope.Scope> {
    return Effect.suspend(() => {
      let seen = this.#storedTime()
      let heardAt = -Infinity
      return this.#listen({
        check: (now, changed) => {
          const time = this.#storedTime()
          const isWrite = changed && time !== seen
          // Those of this connection move it too.
          seen = time
          if (!isWrite) return
          heardAt = now
          hear()
        },
        pauseMs: (now) => (now - heardAt < aloneAfterMs ? busyPauseMs : alonePauseMs),
      })
    })
  }

  /** Runs until interrupted. Runs `notify` whenever awaited jobs were committed. */
  run(notify: Effect.Effect<void>): Effect.Effect<never> {
    return Effect.gen({ self: this }, function* () {
      while (true) {
        this.#news.closeUnsafe()
        const now = Number(yield* Clock.monotonicTimeNanos) / 1e6
        if (this.#check(now)) yield* notify
        const pauseMs = this.#pauseMs(now)
        yield* pauseMs === undefined ? this.#news.await : Effect.timeoutOption(this.#news.await, pauseMs)
      }
    })
  }

  #check(now: number): boolean {
    const changed = this.#changed()
    for (const { check } of this.#listeners) check(now, changed)
    let found = false
    for (const [transaction, awaited] of this.#awaited) {
      const over = awaited.isOver()
      if (changed) {
        const missing = awaited.rows.filter((row) => !this.#exists(row))
        found ||= missing.length < awaited.rows.length
        awaited.rows = missing
      }
      awaited.since ??= now
      if (over || awaited.rows.length === 0 || now - awaited.since >= givesUpAfterMs) this.#awaited.delete(transaction)
    }
    return found
  }

  #pauseMs(now: number): number | undefined {
    const pauses = Array.from(this.#listeners, ({ pauseMs }) => pauseMs(now))
    const listeningMs = pauses.length > 0 ? Math.min(...pauses) : undefined
    if (this.#awaited.size === 0) return listeningMs
    const ages = Array.from(this.#awaited.values(), ({ since = now }) => now - since)
    const youngest = Math.min(...ages)
    if (youngest >= lateAfterMs) return listeningMs ?? latePauseMs
    return Math.max(firstPauseMs, Math.min(youngest / 4, usualPauseMs))
  }

  /** Whether another connection has committed since the last call. */
  #changed(): boolean {
    const row = orUndefined(() => this.#version.get([])) as { readonly data_version: number } | undefined
    if (row === undefined || row.data_version === this.#seen) return false
    this.#seen = row.data_version
    return true
  }

  #storedTime(): number | undefined {
    const row = orUndefined(() => this.#time.get([])) as StoredTime | undefined
    return row?.latest
  }

  #exists({ jobId, signal }: WrittenRow): boolean {
    const found = () => (signal === undefined ? this.#job.get([jobId]) : this.#signal.get([jobId, signal]))
    return orUndefined(found) !== undefined
  }
}

/** Best effort: the verbs report problems of the store. */
const orUndefined = <A>(read: () => A): A | undefined => {
  try {
    return read()
  } catch {
    return undefined
  }
}
