/** Lanes of which the database may learn late, at most: beyond that too few would be left to find the others by. */
const maxPending = 16

/** A lane of which jobs were claimed. */
export interface Served {
  readonly id: number
  /** The turn of the first. */
  readonly start: number
  count: number
}

/** What a claim found out about lanes. */
export interface LanesAfter {
  readonly served: ReadonlyArray<Served>
  /** Lanes that were looked into. */
  readonly visited: ReadonlyArray<number>
  /** Those of them that have nothing left, as far as the claim could see. */
  readonly exhausted: ReadonlySet<number>
  /** The turn at which a lane was served last. */
  readonly clock: number
}

interface Pending {
  readonly start: number
  count: number
}

/** What a claim gives the database to note. */
export interface Due {
  /** Lanes and the turns they had, as `serve_lanes` takes them. */
  readonly served: ReadonlyArray<readonly [laneId: number, turns: Pending]>
  readonly clock: number
  /** Lanes to be set to the time when each has something. */
  readonly settle: ReadonlyArray<number>
  /** Lanes that were found empty, and are to be looked into again before they are set. */
  readonly unsettled: ReadonlyArray<number>
  /** Milliseconds until then; `undefined` where there are none. */
  readonly againInMs: number | undefined
}

/**
 * What this process knows about lanes and the database does not yet. Where lanes stand changes with every claim, and a row
 * that is written with every claim leaves as many dead versions behind as there were claims, as long as an old snapshot
 * anywhere in the database keeps them: each claim would be slower than the one before. So turns are noted at
 * most once per `noteEveryMs`, and a lane that is found empty is set aside only when it still is that much later: one
 * that has a job now and then is not written at all. Until its turns are noted a process goes by its own count, and so is
 * fair by itself; what a crash loses of them is a turn, never a job.
 */
export class LaneNotes {
  readonly #noteEveryMs: number
  readonly #pending = new Map<number, Pending>()
  readonly #emptySince = new Map<number, number>()
  readonly #advancedAt = new Map<number, number>()
  #clock = 0
  #notedAt = -Infinity

  constructor(noteEveryMs: number) {
    this.#noteEveryMs = noteEveryMs
  }

  /** The virtual time at which a lane was last served, as far as is known here. */
  clock(stored: number): number {
    return Math.max(stored, this.#clock)
  }

  /** Where a lane stands, as far as is known here. */
  turn(laneId: number, stored: number): number {
    const pending = this.#pending.get(laneId)
    return pending === undefined ? stored : Math.max(stored, pending.start + pending.count)
  }

  /** Takes in what a claim did that is committed, and says what of it is to be noted now. */
  claimed({ clock, exhausted, served, visited }: LanesAfter, now: number): Due {
    this.#clock = Math.max(this.#clock, clock)
    for (const { count, id, start } of served) {
      if (count === 0) continue
      const pending = this.#pending.get(id)
      if (pending === undefined) this.#pending.set(id, { start, count })
      else pending.count = Math.max(start, pending.start + pending.count) + count - pending.start
      this.#emptySince.delete(id)
    }
    // Many empty lanes at once would stand before others that are not.
    const tooMany = exhausted.size >= maxPending
    const settle = visited.filter((id) =>
      exhausted.has(id) ? this.#isEmptyLong(id, now) || tooMany : this.#isBehind(id, now),
    )
    const settled = new Set(settle)
    const unsettled = [...exhausted].filter((id) => !settled.has(id))
    for (const id of settled) this.#emptySince.delete(id)
    const againAt = Math.min(...unsettled.map((id) => (this.#emptySince.get(id) ?? now) + this.#noteEveryMs))
    return {
      served: this.#takeTurns(now),
      clock: this.#clock,
      settle,
      unsettled,
      againInMs: againAt === Infinity ? undefined : Math.max(1, Math.ceil(againAt - now)),
    }
  }

  /** Everything that is not noted yet, for the end. */
  rest(): Pick<Due, "served" | "clock"> {
    return { served: this.#takeTurns(Infinity), clock: this.#clock }
  }

  #isEmptyLong(id: number, now: number): boolean {
    const since = this.#emptySince.get(id) ?? now
    this.#emptySince.set(id, since)
    return now - since >= this.#noteEveryMs
  }

  /** Of a lane with more to give the bound is raised now and then, so that claims need not walk over all that is gone. */
  #isBehind(id: number, now: number): boolean {
    if (now - (this.#advancedAt.get(id) ?? -Infinity) < this.#noteEveryMs) return false
    this.#advancedAt.set(id, now)
    return true
  }

  #takeTurns(now: number): Due["served"] {
    const due = now - this.#notedAt >= this.#noteEveryMs || this.#pending.size >= maxPending
    if (!due || this.#pending.size === 0) return []
    this.#notedAt = now
    const turns = [...this.#pending]
    this.#pending.clear()
    return turns
  }
}
