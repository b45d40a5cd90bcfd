import type { PreparedStatement } from "../SqliteDatabase.ts"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import type * as Scope from "effect/Scope"
import type { JobId } from "@kiln/core/domain"
import type { Database } from "../Database.ts"

/** Milliseconds between two looks: short at first, since most transactions are, and seldom at one that stays open. */
const firstPauseMs = 5
const usualPauseMs = 25
const latePauseMs = 1_000
const lateAfterMs = 60_000
const givenUpAfterMs = 600_000
/** Jobs of one transaction that are looked for. They exist together, but for those that its savepoints take back. */
const mostOfOne = 16

interface Awaited {
  readonly isOver: () => boolean
  jobIds: ReadonlyArray<JobId>
  /** Since when nothing was added, by the monotonic clock; `undefined` until the next look. */
  since: number | undefined
}

/**
 * SQLite tells nobody of a commit. While somebody wants to know, this looks at `PRAGMA data_version`, a number in shared
 * memory that changes whenever another connection, of whichever process, has committed; and then at the jobs.
 */
export class CommitWatch {
  readonly #version: PreparedStatement
  readonly #job: PreparedStatement
  readonly #awaited = new Map<object, Awaited>()
  readonly #listeners = new Set<() => void>()
  readonly #news = Latch.makeUnsafe(false)
  #seen: unknown

  constructor({ connection }: Pick<Database, "connection">) {
    this.#version = connection.prepare("PRAGMA data_version")
    this.#job = connection.prepare("SELECT 1 FROM kiln_jobs WHERE id = ?")
  }

  /** From now on looks whether a job of this transaction has come to exist, until `isOver` or for ten minutes. */
  awaitCommit(transaction: object, jobId: JobId, isOver: () => boolean): void {
    const jobIds = this.#awaited.get(transaction)?.jobIds ?? []
    this.#awaited.set(transaction, {
      isOver,
      jobIds: [...jobIds, jobId].slice(-mostOfOne),
      since: undefined,
    })
    this.#news.openUnsafe()
  }

  /** Says, until the scope closes, that another connection has committed something. */
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

  /** Looks for ever, as often as somebody wants to know; says `notify` whenever awaited jobs have come to exist. */
  run(notify: Effect.Effect<void>): Effect.Effect<never> {
    return Effect.gen({ self: this }, function* () {
      while (true) {
        this.#news.closeUnsafe()
        const now = Number(yield* Clock.monotonicTimeNanos) / 1e6
        if (this.#look(now)) yield* notify
        const pauseMs = this.#pauseMs(now)
        yield* pauseMs === undefined ? this.#news.await : Effect.timeoutOption(this.#news.await, pauseMs)
      }
    })
  }

  #look(now: number): boolean {
    const changed = this.#changed()
    if (changed) for (const hear of this.#listeners) hear()
    let found = false
    for (const [transaction, awaited] of this.#awaited) {
      const over = awaited.isOver()
      if (changed) {
        const missing = awaited.jobIds.filter((jobId) => !this.#exists(jobId))
        found ||= missing.length < awaited.jobIds.length
        awaited.jobIds = missing
      }
      awaited.since ??= now
      if (over || awaited.jobIds.length === 0 || now - awaited.since >= givenUpAfterMs)
        this.#awaited.delete(transaction)
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

  /** Whether another connection has committed since this was asked last. */
  #changed(): boolean {
    const row = orNothing(() => this.#version.get([])) as { readonly data_version: number } | undefined
    if (row === undefined || row.data_version === this.#seen) return false
    this.#seen = row.data_version
    return true
  }

  #exists(jobId: JobId): boolean {
    return orNothing(() => this.#job.get([jobId])) !== undefined
  }
}

/** Nothing depends on a look: the verbs report what is wrong with the store. */
const orNothing = <A>(look: () => A): A | undefined => {
  try {
    return look()
  } catch {
    return undefined
  }
}
