import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import type * as Scope from "effect/Scope"
import type { JobId } from "@kiln/core/domain"
import type { Database } from "./Database.ts"
import type { PreparedStatement } from "./SqliteDatabase.ts"

/** Milliseconds between two checks: short at first, since most transactions are, and long for one that stays open. */
const firstPauseMs = 5
const usualPauseMs = 25
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
  readonly #awaited = new Map<object, Awaited>()
  readonly #listeners = new Set<() => void>()
  readonly #news = Latch.makeUnsafe(false)
  #seen: unknown

  constructor({ connection }: Pick<Database, "connection">) {
    this.#version = connection.prepare("PRAGMA data_version")
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
    const listener = () => hear()
    return Effect.acquireRelease(
      Effect.sync(() => {
        if (this.#listeners.size === 0 && this.#awaited.size === 0) this.#changed()
        this.#listeners.add(listener)
        this.#news.openUnsafe()
      }),
      () => Effect.sync(() => void this.#listeners.delete(listener)),
    )
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
    if (changed) for (const hear of this.#listeners) hear()
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
    const listening = this.#listeners.size > 0
    if (this.#awaited.size === 0) return listening ? usualPauseMs : undefined
    const ages = Array.from(this.#awaited.values(), ({ since = now }) => now - since)
    const youngest = Math.min(...ages)
    if (youngest >= lateAfterMs) return listening ? usualPauseMs : latePauseMs
    return Math.max(firstPauseMs, Math.min(youngest / 4, usualPauseMs))
  }

  /** Whether another connection has committed since the last call. */
  #changed(): boolean {
    const row = orUndefined(() => this.#version.get([])) as { readonly data_version: number } | undefined
    if (row === undefined || row.data_version === this.#seen) return false
    this.#seen = row.data_version
    return true
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
