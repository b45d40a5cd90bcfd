export interface AliveKeysOptions {
  readonly lifetimeMs: number
  readonly mostOfAddress: number
  readonly mostOfAll: number
}

/** Counts the keys that were issued to client addresses and still work, in the memory of this process. */
export class AliveKeys {
  readonly #options: AliveKeysOptions
  /** When each key ends, oldest first, by address. Addresses are in the order of their latest key. */
  readonly #ends = new Map<string, Array<number>>()
  #count = 0

  constructor(options: AliveKeysOptions) {
    this.#options = options
  }

  /** Counts one more key, and returns 0; or returns the milliseconds until one more is allowed. */
  take(address: string, now: number): number {
    const { lifetimeMs, mostOfAddress, mostOfAll } = this.#options
    if (this.#count >= mostOfAll) for (const known of this.#ends.keys()) this.#drop(known, now)
    const ends = this.#drop(address, now)
    if (ends.length >= mostOfAddress) return Math.max(1, (ends[0] ?? now) - now)
    if (this.#count >= mostOfAll) {
      const next = [...this.#ends.values()].reduce((first, [end = first]) => Math.min(first, end), now + lifetimeMs)
      return Math.max(1, next - now)
    }
    ends.push(now + lifetimeMs)
    this.#count += 1
    this.#ends.set(address, ends)
    return 0
  }

  /** Forgets the latest key of an address, because it was not created after all. */
  giveBack(address: string): void {
    if (this.#ends.get(address)?.pop() !== undefined) this.#count -= 1
  }

  /** Forgets the keys of an address that have expired, and returns the others. */
  #drop(address: string, now: number): Array<number> {
    const ends = this.#ends.get(address) ?? []
    const kept = ends.filter((end) => end > now)
    this.#count -= ends.length - kept.length
    if (kept.length === 0) this.#ends.delete(address)
    else this.#ends.set(address, kept)
    return kept
  }
}
