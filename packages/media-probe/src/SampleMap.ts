/** Remaining count of table entries that may be kept for one file, across all tracks. */
export interface TableBudget {
  numbers: number
}

/** Creates a budget for the longest accepted recording in the shortest possible packets: 6 MiB. */
export const tableBudget = (): TableBudget => ({ numbers: 800_000 })

/** The offsets of a track's samples in the file, according to its tables. */
export class SampleMap {
  /** True when the tables have more entries than were kept. */
  isPartial = false
  readonly #sizes: Row
  readonly #chunks: Row
  /** First chunk and samples per chunk, alternating. */
  readonly #runs: Row
  readonly #places: Row
  #size = 0

  constructor(budget: TableBudget) {
    this.#sizes = new Row(budget)
    this.#chunks = new Row(budget)
    this.#runs = new Row(budget)
    this.#places = new Row(budget)
  }

  addSize(bytes: number): void {
    this.#keep(this.#sizes.add(bytes))
  }

  /** Sets one size for all samples. */
  setSize(bytes: number): void {
    this.#size = bytes
  }

  addChunk(offset: number): void {
    this.#keep(this.#chunks.add(offset))
  }

  addRun(firstChunk: number, samples: number): void {
    this.#keep(this.#runs.add(firstChunk) && this.#runs.add(samples))
  }

  /** Adds a sample of a fragment. */
  addPlace(offset: number): void {
    this.#keep(this.#places.add(offset))
  }

  #keep(isKept: boolean): void {
    if (!isKept) this.isPartial = true
  }

  /** Returns the offsets of the samples in file order, each as often as it is played. */
  places(): Float64Array {
    let sample = 0
    let run = 0
    for (let chunk = 1; chunk <= this.#chunks.length; chunk++) {
      while (run + 2 < this.#runs.length && this.#runs.at(run + 2) <= chunk) run += 2
      let offset = this.#chunks.at(chunk - 1)
      for (let i = this.#runs.at(run + 1); i > 0 && !this.isPartial; i--) {
        if (this.#size === 0 && sample >= this.#sizes.length) break
        this.addPlace(offset)
        offset += this.#size || this.#sizes.at(sample)
        sample++
      }
    }
    return this.#places.values().sort()
  }
}

/** A list of numbers that is limited by the budget. */
class Row {
  readonly #budget: TableBudget
  #values = new Float64Array(0)
  length = 0

  constructor(budget: TableBudget) {
    this.#budget = budget
  }

  /** Adds a number; returns false when the budget is used up. */
  add(value: number): boolean {
    if (this.#budget.numbers === 0) return false
    this.#budget.numbers--
    if (this.length === this.#values.length) {
      const larger = new Float64Array(Math.max(64, this.length * 2))
      larger.set(this.#values)
      this.#values = larger
    }
    this.#values[this.length++] = value
    return true
  }

  at(index: number): number {
    return this.#values[index] ?? 0
  }

  values(): Float64Array {
    return this.#values.slice(0, this.length)
  }
}
