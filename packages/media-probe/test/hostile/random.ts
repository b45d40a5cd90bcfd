/** A source of pseudorandom numbers that returns the same sequence for the same seed. */
export class Random {
  #state: number

  /** Mixes any number of seeds, such as a run's seed, a format and an index. */
  constructor(...seeds: ReadonlyArray<number | string>) {
    this.#state = 0x811c9dc5
    for (const character of seeds.join("/")) {
      this.#state = Math.imul(this.#state ^ character.charCodeAt(0), 0x01000193)
    }
  }

  /** Returns an unsigned 32-bit number. */
  word(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return (mixed ^ (mixed >>> 14)) >>> 0
  }

  /** Returns an integer from 0 to `limit - 1`. */
  below(limit: number): number {
    return Math.floor((this.word() / 2 ** 32) * limit)
  }

  /** Returns an integer between both bounds, inclusive. */
  between(least: number, most: number): number {
    return least + this.below(most - least + 1)
  }

  chance(probability: number): boolean {
    return this.word() / 2 ** 32 < probability
  }

  /** Returns one of the choices; throws for an empty list. */
  pick<A>(choices: ReadonlyArray<A>): A {
    if (choices.length === 0) throw new RangeError("expected at least one choice")
    return choices[this.below(choices.length)]!
  }

  maybePick<A>(choices: ReadonlyArray<A>): A | undefined {
    return choices[this.below(choices.length)]
  }

  bytes(count: number): Buffer {
    const bytes = Buffer.alloc(count)
    for (let i = 0; i < count; i++) bytes[i] = this.below(256)
    return bytes
  }
}
