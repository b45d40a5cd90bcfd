import { type RateLimitPolicy, TOKEN } from "../domain/RateLimit.ts"

/** The longest that reservations take to lapse, as a multiple of the time in which a token comes. */
const mostSlowness = 8

/** For how long jobs may wait for their tokens if they do other work first. */
const sparesMs = 500

interface Reservation {
  /** When the job was claimed. */
  readonly at: number
  /** When it lapses. */
  readonly until: number
}

/**
 * The tokens of a rate that running jobs have not asked for yet. Each claimed job reserves one. The reservations lapse one after the
 * other, at the rate, so jobs that do other work first do not keep the process from claiming more. If jobs then have to wait for their
 * tokens, because other processes claim too, reservations lapse more slowly. Times are milliseconds of the monotonic clock.
 */
export class Reservations {
  readonly #policy: RateLimitPolicy
  readonly #jobs = new Map<object, Reservation>()
  #lastUntil = 0
  #slowness = 1
  /** Milliseconds from the claim of a job to its request for a token, on average of the last ones. */
  #leadMs = 0

  constructor(policy: RateLimitPolicy) {
    this.#policy = policy
  }

  /** Reserves a token for a job that starts. */
  add(job: object, now: number): void {
    const until = Math.max(now, this.#lastUntil) + (this.#slowness * TOKEN) / this.#policy.perMinute
    this.#lastUntil = until
    this.#jobs.set(job, { at: now, until })
  }

  /** Ends the reservation of a job, because it has ended. Returns `false` if it had none. */
  delete(job: object): boolean {
    const had = this.#jobs.delete(job)
    if (this.#jobs.size === 0) this.#lastUntil = 0
    return had
  }

  /** Ends the reservation of a job, because it asks for its token. */
  ask(job: object, now: number): void {
    const asking = this.#jobs.get(job)
    if (asking !== undefined) this.#leadMs += (now - asking.at - this.#leadMs) / 4
    this.delete(job)
  }

  /** Records for how long a job has waited for its token. */
  waited(ms: number): void {
    const isLate = ms > Math.max(TOKEN / this.#policy.perMinute, this.callLate ? sparesMs : 0)
    this.#slowness = isLate ? Math.min(mostSlowness, 1.1 * this.#slowness) : Math.max(1, 0.9 * this.#slowness)
  }

  /** Records that a job has waited in vain. Its work before is done again. */
  gaveUp(): void {
    this.#slowness = Math.min(mostSlowness, 1.25 * this.#slowness)
  }

  /** Returns how many have not lapsed. */
  count(now: number): number {
    let count = 0
    for (const { until } of this.#jobs.values()) if (until > now) count += 1
    return count
  }

  /** Returns when another `count` of them will have lapsed; `undefined` if there are not as many. */
  lapsedAt(count: number, now: number): number | undefined {
    const ends = [...this.#jobs.values()].map(({ until }) => until).filter((until) => until > now)
    return ends.sort((one, other) => one - other)[count - 1]
  }

  /**
   * The number of jobs beyond the tokens that may run, to wait for their tokens. If jobs do other work of different length first, they
   * ask at irregular times, and the tokens of a time when none asks would be lost.
   */
  get spare(): number {
    return this.callLate ? Math.floor((sparesMs * this.#policy.perMinute) / TOKEN / this.#slowness) : 0
  }

  /** Whether tokens that are taken before a claim would be held for so long that the bucket could not refill. */
  get callLate(): boolean {
    return 4 * this.#leadMs * this.#policy.perMinute > this.#policy.burst * TOKEN
  }
}
