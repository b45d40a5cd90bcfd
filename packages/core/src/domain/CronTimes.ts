import * as Cron from "effect/Cron"
import * as DateTime from "effect/DateTime"
import * as Result from "effect/Result"

const dayMs = 24 * 3_600_000

/** The reading of a local clock, as if it were UTC, in milliseconds. */
type WallTime = number

/**
 * The times of a cron expression in a time zone. The expression is followed on the local clock, which has no gaps there, and each local
 * time is then looked up in the zone: one that a change to summer time skips comes as much later, and one that occurs twice comes the
 * first time. Every skipped time comes, also if several are skipped at once.
 */
export class CronTimes {
  readonly #cron: Cron.Cron
  readonly #zone: DateTime.TimeZone

  /** Throws for an invalid expression and for an unknown time zone. */
  constructor(cron: string, timeZone: string) {
    this.#zone = DateTime.zoneMakeNamedUnsafe(timeZone)
    this.#cron = Result.getOrThrow(Cron.parse(cron, "UTC"))
  }

  /** The first time after another. Throws if it never occurs. */
  next(after: number): number {
    const [least] = this.#offsetsAround(after)
    let wall = after + least
    let best = Infinity
    do {
      wall = Cron.next(this.#cron, new Date(wall)).getTime()
      const [at, mayBeEarlier] = this.#instantOf(wall)
      if (at > after) best = Math.min(best, at)
      // Without a change of clocks nearby, local times are in the order of time.
      if (at > after && mayBeEarlier === 0) break
    } while (wall < best + this.#offsetsAround(Math.min(best, wall))[1])
    return best
  }

  /** The last time that is not after another. Throws if it never occurs. */
  lastUntil(now: number): number {
    const [, most] = this.#offsetsAround(now)
    let wall = now + most + 1
    let best = -Infinity
    do {
      wall = Cron.prev(this.#cron, new Date(wall)).getTime()
      const [at, mayBeLater] = this.#instantOf(wall)
      if (at <= now) best = Math.max(best, at)
      if (at <= now && mayBeLater === 0) break
    } while (wall > best + this.#offsetsAround(Math.max(best, wall))[0])
    return best
  }

  /** When a local clock shows a time, and by how much clocks change around it. */
  #instantOf(wall: WallTime): readonly [at: number, changeMs: number] {
    const before = this.#offsetAt(wall - dayMs)
    const after = this.#offsetAt(wall + dayMs)
    const byFirst = wall - before
    if (before === after || this.#offsetAt(byFirst) === before) return [byFirst, after - before]
    const bySecond = wall - after
    return [this.#offsetAt(bySecond) === after ? bySecond : byFirst, after - before]
  }

  /** The least and the greatest offset from UTC around a time, in milliseconds. */
  #offsetsAround(at: number): readonly [least: number, most: number] {
    const before = this.#offsetAt(at - 2 * dayMs)
    const after = this.#offsetAt(at + 2 * dayMs)
    return [Math.min(before, after), Math.max(before, after)]
  }

  #offsetAt(at: number): number {
    return DateTime.zonedOffset(DateTime.makeZonedUnsafe(at, { timeZone: this.#zone }))
  }
}
