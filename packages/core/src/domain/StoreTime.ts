/** Milliseconds by which the wall clock may move against the monotonic clock between two readings before it counts as set. */
const toleranceMs = 5_000

/** How fast store time passes while it is ahead of the wall clock: an hour's lead is gone after ten. Leases and delays take that much longer. */
const paceWhileAhead = 0.9

/** One look at a machine's clocks. */
export interface ClockReading {
  /** Unix milliseconds by the wall clock, which may be set to another time. */
  readonly wallMs: number
  /** Milliseconds by the monotonic clock, which is never set. */
  readonly monotonicMs: number
}

/** Reads both clocks of an Effect `Clock`. */
export const readClocks = (clock: {
  readonly currentTimeMillisUnsafe: () => number
  readonly monotonicTimeNanosUnsafe: () => bigint
}): ClockReading => ({
  wallMs: clock.currentTimeMillisUnsafe(),
  monotonicMs: Number(clock.monotonicTimeNanosUnsafe()) / 1e6,
})

/**
 * Store time of a store that has no clock of its own: the wall clock of the machine, except that it never goes backwards and
 * never stands still. After the wall clock was set back, store time goes on from where it was, slightly slower than real time,
 * until the wall clock has caught up. A clock that was set forward is followed, since a machine that was suspended looks the
 * same. One instance for each process and store; what processes share is the latest time that any of them used.
 */
export class StoreTime {
  #last: (ClockReading & { readonly time: number }) | undefined
  #jumpMs: number | undefined

  /** Store time, whole unix milliseconds: not before any time this returned earlier, and not before `kept`. */
  now(reading: ClockReading, kept: number = -Infinity): number {
    const { monotonicMs, wallMs } = reading
    const last = this.#last
    const passedMs = last === undefined ? 0 : Math.max(0, monotonicMs - last.monotonicMs)
    this.#noteJump(wallMs - (last === undefined ? Math.max(wallMs, kept) : last.wallMs + passedMs))
    const time = Math.max(wallMs, kept, last === undefined ? -Infinity : last.time + passedMs * paceWhileAhead)
    this.#last = { wallMs, monotonicMs, time }
    return Math.floor(time)
  }

  #noteJump(byMs: number): void {
    if (Math.abs(byMs) > toleranceMs) this.#jumpMs = (this.#jumpMs ?? 0) + byMs
  }

  /**
   * By how many milliseconds the wall clock was set since the last call, forward or (negative) back, beyond a tolerance of
   * five seconds; at first also how far it is behind the time that was kept. `undefined` if it was not set.
   */
  takeJump(): number | undefined {
    const jumpMs = this.#jumpMs
    this.#jumpMs = undefined
    return jumpMs
  }
}

/** What the log says of a wall clock that was set. */
export const describeJump = (jumpMs: number): string => {
  const seconds = `${Math.round(Math.abs(jumpMs) / 1_000)} s`
  return jumpMs > 0
    ? `The wall clock went forward by ${seconds}: it was set, or the machine was suspended. Leases may have ended, and jobs that wait may have reached their queue limit.`
    : `The wall clock went back by ${seconds}. Store time goes on without it, slightly slower, until the clock has caught up. Times of records are ahead of the clock until then.`
}
