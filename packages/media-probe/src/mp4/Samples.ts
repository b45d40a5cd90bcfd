import { ambiguous } from "./fields.ts"

/** The samples of a track that are present, in the order in which they are played. Of a file that is cut, the last one may be cut too. */
export class Samples {
  starts = new Uint32Array(64)
  sizes = new Uint32Array(64)
  count = 0
  bytes = 0
  /** Sum of their stated durations. */
  ticks = 0
  /** Number of samples that are not in fragments. */
  tableCount = 0

  /** Returns the first samples alone. */
  first(count: number): Samples {
    const some = new Samples()
    some.starts = this.starts.subarray(0, count)
    some.sizes = this.sizes.subarray(0, count)
    some.count = Math.min(count, this.count)
    for (let index = 0; index < some.count; index++) some.bytes += some.sizes[index] ?? 0
    return some
  }

  /** Adds a sample, as far as it lies within the file. */
  add(file: Uint8Array, coverage: Coverage, start: number, bytes: number): boolean {
    const size = Math.min(bytes, file.length - start)
    if (start < 0 || size <= 0) return false
    coverage.add(start, start + size)
    if (this.count === this.starts.length) {
      this.starts = doubled(this.starts)
      this.sizes = doubled(this.sizes)
    }
    this.starts[this.count] = start
    this.sizes[this.count] = size
    this.count++
    this.bytes += size
    return true
  }
}

const doubled = (values: Uint32Array): Uint32Array<ArrayBuffer> => {
  const larger = new Uint32Array(2 * values.length)
  larger.set(values)
  return larger
}

/** More than every offset in a file, so that two offsets fit in one number. */
const PAIR = 2 ** 26

/** More than any recording has. */
const MAX_RANGES = 200_000

/** The parts of a file that belong to samples. */
export class Coverage {
  #ranges = new Float64Array(64)
  #count = 0
  /** Bytes of all ranges: more than the file has if samples overlap. */
  bytes = 0

  /** Adds a range. Adjoining ranges take less memory if they are added one after the other. */
  add(start: number, end: number): void {
    if (end <= start) return
    this.bytes += end - start
    const last = this.#ranges[this.#count - 1] ?? 0
    if (this.#count > 0 && last % PAIR === start) {
      this.#ranges[this.#count - 1] = last - start + end
      return
    }
    if (this.#count === MAX_RANGES) throw ambiguous("samples in too many places")
    if (this.#count === this.#ranges.length) {
      const larger = new Float64Array(2 * this.#count)
      larger.set(this.#ranges)
      this.#ranges = larger
    }
    this.#ranges[this.#count++] = start * PAIR + end
  }

  /** Returns the number of bytes that belong to at least one range. */
  union(): number {
    let covered = 0
    let reached = 0
    for (const range of this.#ranges.subarray(0, this.#count).sort()) {
      const end = range % PAIR
      covered += Math.max(0, end - Math.max(reached, Math.floor(range / PAIR)))
      reached = Math.max(reached, end)
    }
    return covered
  }
}
