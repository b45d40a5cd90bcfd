/** Maximum number of lanes whose turns are not saved yet, all of which each claim sends. */
const maxUnsaved = 256

/** Number of lanes found empty by one claim that are set aside at once. */
const manyEmpty = 16

/** Number of jobs after whose claims the bound of their lane is worth raising. */
const manyPassed = 32

/** Number of intervals after which a bound is raised even if few jobs passed it, and a lane that was found empty is no longer remembered. */
const manyIntervals = 16

/** A lane whose jobs were claimed. */
export interface Served {
  readonly id: number
  /** The turn of the first job. */
  readonly start: number
  /** At least 1. */
  readonly count: number
  /** Names the kind, version and mode of the lane. */
  readonly group: string
}

/** The lanes of a claim: those that it searched, and the turns that it took from them. */
export interface ClaimedLanes {
  readonly served: ReadonlyArray<Served>
  /** Lanes that were searched. */
  readonly visited: ReadonlyArray<number>
  /** Searched lanes without further claimable jobs, as far as the claim could see. */
  readonly exhausted: ReadonlySet<number>
  /** Whether lanes without claimable jobs made a second search necessary, which does not say when their next jobs are due. */
  readonly hidOthers: boolean
  /** The turn at which a lane was last served. */
  readonly clock: number
}

/** The lane of each group whose turn came last. */
const lastOf = (served: ReadonlyArray<Served>): ReadonlyMap<string, Served> => {
  const lasts = new Map<string, Served>()
  for (const lane of served) {
    const last = lasts.get(lane.group)
    const turns = last === undefined ? 1 : lane.start + lane.count - (last.start + last.count)
    if (last === undefined || turns > 0 || (turns === 0 && lane.id > last.id)) lasts.set(lane.group, lane)
  }
  return lasts
}

interface Pending {
  readonly start: number
  count: number
  readonly group: string
}

/** The bound of a lane, since this process raised it. */
interface Bound {
  readonly raisedAt: number
  passed: number
}

/** Turns to be saved after a claim. */
export interface LaneUpdate {
  /** Lanes and their turns, as `serve_lanes` takes them. */
  readonly served: ReadonlyArray<readonly [laneId: number, turns: Pick<Served, "start" | "count">]>
  readonly clock: number
  /** Lanes whose `next_at` is to be raised to their first job. */
  readonly settle: ReadonlyArray<number>
  /** Lanes that were found empty and are searched once more before `next_at` is raised. */
  readonly unsettled: ReadonlyArray<number>
  /** Milliseconds until that search; `undefined` if there are no such lanes. */
  readonly againInMs: number | undefined
}

/**
 * Positions of lanes that this process has not saved to the database yet. Positions change with every claim. Saving them each
 * time would leave a dead row version per claim for as long as any old snapshot exists, and slow down every claim. So turns are
 * saved once per `saveEveryMs`, or earlier if there are many, and an empty lane is set aside only if it is still empty that much later: a lane with an
 * occasional job is not written at all. Until then the process uses its own counts. A crash loses a turn, never a job.
 */
export class LanePositions {
  readonly #saveEveryMs: number
  readonly #pending = new Map<number, Pending>()
  readonly #emptySince = new Map<number, number>()
  readonly #bounds = new Map<number, Bound>()
  #clock = 0
  readonly #after = new Map<string, number>()
  #savedAt = -Infinity
  #forgottenAt = -Infinity
  #mayBeAlone = true

  constructor(saveEveryMs: number) {
    this.#saveEveryMs = saveEveryMs
  }

  /** Whether everything is saved before a claim is answered. */
  get savesAtOnce(): boolean {
    return this.#saveEveryMs === 0
  }

  /** Whether the next claim may find a job alone: the last one found no more than one. */
  get mayBeAlone(): boolean {
    return this.#mayBeAlone
  }

  /** The lane of a group that was served last. The next claim begins with those of the group that were created after it. */
  after(group: string): number {
    return this.#after.get(group) ?? 0
  }

  /** Number of lanes that a claim meets before others, although they have had their turn or were found empty. It looks past them. */
  get inFront(): number {
    let count = this.#emptySince.size
    for (const [id, { count: turns, group, start }] of this.#pending)
      if (start + turns > this.#clock && id > this.after(group)) count += 1
    return count
  }

  /** Records how many jobs a claim found. */
  found(count: number): void {
    this.#mayBeAlone = count <= 1
  }

  /** Returns the virtual time at which a lane was last served, as far as this process knows. */
  clock(stored: number): number {
    return Math.max(stored, this.#clock)
  }

  /** Returns a lane's turn, as far as this process knows. */
  turn(laneId: number, stored: number): number {
    const pending = this.#pending.get(laneId)
    return pending === undefined ? stored : Math.max(stored, pending.start + pending.count)
  }

  /** Returns the turns of lanes that are not saved yet. */
  turns(): ReadonlyArray<{ readonly id: number; readonly turn: number }> {
    return [...this.#pending].map(([id, { count, start }]) => ({ id, turn: start + count }))
  }

  /** Records a committed claim and returns what to save now. */
  claimed({ clock, exhausted, hidOthers, served, visited }: ClaimedLanes, now: number): LaneUpdate {
    this.#forgetOld(now)
    this.#clock = Math.max(this.#clock, clock)
    for (const { count, group, id, start } of served) {
      const pending = this.#pending.get(id)
      if (pending === undefined) this.#pending.set(id, { start, count, group })
      else pending.count = Math.max(start, pending.start + pending.count) + count - pending.start
      this.#emptySince.delete(id)
      const bound = this.#bounds.get(id)
      if (bound !== undefined) bound.passed += count
    }
    for (const [group, { id }] of lastOf(served)) this.#after.set(group, id)
    // Many empty lanes would hide others that have jobs.
    const tooMany = hidOthers || exhausted.size >= manyEmpty
    const settle = visited.filter((id) =>
      exhausted.has(id) ? this.#isEmptyForLong(id, now) || tooMany : this.#isBehind(id, now),
    )
    const settled = new Set(settle)
    const unsettled = [...exhausted].filter((id) => !settled.has(id))
    for (const id of settled) this.#emptySince.delete(id)
    const againAt = Math.min(...unsettled.map((id) => (this.#emptySince.get(id) ?? now) + this.#saveEveryMs))
    return {
      served: this.#takeTurns(now),
      clock: this.#clock,
      settle,
      unsettled,
      againInMs: againAt === Infinity ? undefined : Math.max(1, Math.ceil(againAt - now)),
    }
  }

  /** Returns everything that is not saved yet, for shutdown. */
  unsaved(): Pick<LaneUpdate, "served" | "clock"> {
    return { served: this.#takeTurns(Infinity), clock: this.#clock }
  }

  #isEmptyForLong(id: number, now: number): boolean {
    const since = this.#emptySince.get(id) ?? now
    this.#emptySince.set(id, since)
    return now - since >= this.#saveEveryMs
  }

  /** The bound of a lane with more jobs is raised now and then, so that claims do not scan entries of finished jobs. */
  #isBehind(id: number, now: number): boolean {
    const { passed, raisedAt } = this.#bounds.get(id) ?? { passed: 0, raisedAt: -Infinity }
    const intervals = passed >= manyPassed ? 1 : manyIntervals
    if (now - raisedAt < this.#saveEveryMs * intervals) return false
    this.#bounds.set(id, { raisedAt: now, passed: 0 })
    return true
  }

  /** Other processes may have set a lane aside, so that this one never finds it again. */
  #forgetOld(now: number): void {
    const before = now - this.#saveEveryMs * manyIntervals
    if (this.#forgottenAt > before) return
    this.#forgottenAt = now
    for (const [id, since] of this.#emptySince) if (since < before) this.#emptySince.delete(id)
    for (const [id, { raisedAt }] of this.#bounds) if (raisedAt < before) this.#bounds.delete(id)
  }

  #takeTurns(now: number): LaneUpdate["served"] {
    const due = now - this.#savedAt >= this.#saveEveryMs || this.#pending.size >= maxUnsaved
    if (!due || this.#pending.size === 0) return []
    this.#savedAt = now
    const turns = [...this.#pending].map(([id, { count, start }]) => [id, { start, count }] as const)
    this.#pending.clear()
    return turns
  }
}
