/** A computation that pauses often, so that it never holds the thread for long. */
export type Walk<A> = Generator<undefined, A, undefined>

/** Half a second of processor time on a slow machine. Honest files of 25 MiB take less than a tenth. */
const MAX_STEPS = 3_000_000

/** Steps between two looks at the clock. */
const STEPS_PER_LOOK = 1_000

const SLICE_MS = 5

/** Thrown when a file takes more work than any honest one. */
export class TooMuchWork extends Error {}

/**
 * Limits the work on one file and divides it into slices of a few milliseconds. The limit is a number of steps and not a time, so
 * that the verdict on a file does not depend on how busy the machine is.
 */
export class Work {
  /** Returns a number from 0 to 1 that an uploader cannot predict, to choose what is checked of a large file. */
  readonly random: () => number
  #steps = 0
  #nextLook = STEPS_PER_LOOK
  #sliceBegan = performance.now()
  #isOver = false

  constructor(random: () => number) {
    this.random = random
  }

  /**
   * Counts steps of 50 to 150 ns: a row of a table, the header of a frame, half a KiB that is searched or copied. Returns whether the walk
   * should pause: `if (work.spend(1)) yield`. It does so until `resume`, so a function that cannot pause leaves that to its caller. Throws `TooMuchWork` beyond the limit.
   */
  spend(steps: number): boolean {
    this.#steps += steps
    if (this.#steps < this.#nextLook) return this.#isOver
    if (this.#steps > MAX_STEPS) throw new TooMuchWork()
    this.#nextLook = this.#steps + STEPS_PER_LOOK
    this.#isOver ||= performance.now() - this.#sliceBegan >= SLICE_MS
    return this.#isOver
  }

  /** Begins a slice after a pause. */
  resume(): void {
    this.#isOver = false
    this.#sliceBegan = performance.now()
  }
}
