import type { JobsInProgress, Limited } from "./JobsInProgress.ts"

/** A lane's place in the order: by `turn`, then by `since`, then by `id`. A lane has the waiting jobs of one project, kind, version and mode. */
export interface LaneTurn extends Limited {
  readonly id: number
  /** Virtual time: the number of turns that a lane has had, or those of the last lane served, if these are more. */
  readonly turn: number
  /** Its own turn, which may be behind the last lane served. Of lanes that wait for room, the one served longest ago has the lowest. */
  readonly since: number
}

/** Lanes in their order, of which no more are read than the plan looks at. */
export interface LaneLine<Lane extends LaneTurn> {
  /** The kind of all its lanes. */
  readonly kind: Pick<Limited, "kind" | "mode">
  /** The first lane that was not advanced over. */
  readonly head: Lane | undefined
  readonly advance: () => void
}

const comesBefore = (a: LaneTurn, b: LaneTurn): boolean =>
  a.turn === b.turn ? a.since < b.since || (a.since === b.since && a.id < b.id) : a.turn < b.turn

/**
 * Start-time fair queueing: the lane with the lowest turn is served, one job, and returns one turn later. So a lane with few jobs waits
 * for at most one job of each other lane, however many those have. Lanes at a limit are skipped: a claim frees no capacity, so a full
 * lane stays full. Served lanes leave about in order, so they return about in order, and a sorted queue holds them.
 */
export class ClaimPlan<Lane extends LaneTurn> {
  readonly #lines: ReadonlyArray<LaneLine<Lane>>
  readonly #running: JobsInProgress
  readonly #served: Array<Lane> = []
  /** Index of the first served lane that was not taken again. */
  #nextServed = 0

  /** `running` counts each job that the plan leads to: the caller adds it. */
  constructor(lines: ReadonlyArray<LaneLine<Lane>>, running: JobsInProgress) {
    this.#lines = lines
    this.#running = running
  }

  /** Takes the lane whose turn it is; `undefined` if no lane is left that is not full. */
  take(): Lane | undefined {
    let lane = this.#takeAny()
    while (lane !== undefined && this.#running.isFull(lane)) lane = this.#takeAny()
    return lane
  }

  #takeAny(): Lane | undefined {
    let first = this.#served[this.#nextServed]
    let from: LaneLine<Lane> | undefined
    for (const line of this.#lines) {
      const { head } = line
      if (head === undefined || (first !== undefined && !comesBefore(head, first))) continue
      // Skips the rest of a full kind, which may be thousands of lanes.
      if (this.#running.kindIsFull(line.kind)) continue
      first = head
      from = line
    }
    if (from !== undefined) from.advance()
    else if (first !== undefined) this.#nextServed += 1
    return first
  }

  /** Records that a job of a lane was claimed, and returns the lane at its next turn. A lane that is not served does not return. */
  serve(lane: Lane): Lane {
    const next = { ...lane, turn: lane.turn + 1, since: lane.turn + 1 }
    let place = this.#served.length
    for (; place > this.#nextServed; place -= 1) {
      const before = this.#served[place - 1]
      if (before === undefined || !comesBefore(next, before)) break
    }
    this.#served.splice(place, 0, next)
    return next
  }
}
