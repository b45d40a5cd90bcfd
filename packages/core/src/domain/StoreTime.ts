/** Milliseconds by which the wall clock may move against the monotonic clock between two readings before it counts as set. */
const toleranceMs = 5_000

/**
 * The speed of store time while it is ahead of the wall clock: a lead of one hour is gone after ten. Leases and delays take
 * longer by the same factor.
 */
const paceWhileAhead = 0.9

/** One reading of a machine's clocks. */
export interface ClockReading {
  /** Unix milliseconds of the wall clock, which can be adjusted. */
  readonly wallMs: number
  /** Milliseconds of the monotonic clock, which is never adjusted. */
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
 * Store time for a store without its own clock: the machine's wall clock, except that it never goes backwards and never stands
 * still. After the wall clock is set back, store time continues from where it was, slightly slower than real time, until the wall
 * clock has caught up. A clock that is set forward is followed, because a suspended machine looks the same. Use one instance for
 * each process and store; processes share the latest time that any of them used.
 */
export class StoreTime {
  #last: (ClockReading & { readonly time: number }) | undefined
  #jumpMs: number | undefined

  /** Returns store time in whole Unix milliseconds: never before an earlier result, and never before `kept`. */
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
   * Returns by how many milliseconds the wall clock was set since the last call, forward or (negative) back, beyond a tolerance
   * of five seconds. The first call also reports how far it is behind the kept time. Returns `undefined` if it was not set.
   */
  takeJump(): number | undefined {
    const jumpMs = this.#jumpMs
    this.#jumpMs = undefined
    return jumpMs
  }
}

/** Returns the log message for a wall clock that was set. */
export const describeJump = (jumpMs: number): string => {
  const seconds = `${Math.round(Math.abs(jumpMs) / 1_000)} s`
  return jumpMs > 0
    ? `The wall clock went forward by ${seconds}: it was set, or the machine was suspended. Leases may have ended, and waiting jobs may have reached their queue limit.`
    : `The wall clock went back by ${seconds}. Store time continues slightly slower until the clock has caught up. Until then, times of records are ahead of the clock.`
}
