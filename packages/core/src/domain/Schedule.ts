import * as Cron from "effect/Cron"
import * as DateTime from "effect/DateTime"
import * as Result from "effect/Result"
import type { JobMode } from "./Access.ts"
import { crc32 } from "./crc32.ts"
import type { JobId, KeyId, ProjectId } from "./Ids.ts"
import type { JsonObject } from "./givenValues.ts"
import type { Priority } from "./Priority.ts"

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

/** When a schedule ticks: by a cron expression of five fields in a time zone, or at a fixed interval from a moment on. */
export type ScheduleTiming =
  | { readonly cron: string; readonly timeZone: string }
  | {
      /** Milliseconds. */
      readonly everyMs: number
      /** Store time, Unix milliseconds. */
      readonly from: number
    }

/**
 * The outcome of ticks that came while no worker was running: one job for the latest of them, none, or a job for each of the last
 * `maxBackfill`, in order.
 */
export type MissedTicks = "once" | "skip" | "each"

/** The outcome of a tick whose schedule has an unfinished job: a job beside it, none, or a job once the other has finished. */
export type Overlap = "allow" | "skip" | "queue"

/** Ticks without a job. */
export interface SkippedTicks {
  /** Number since the schedule was set first. At most 1,000 are counted for one outage. */
  readonly count: number
  /** The last of them, store time, Unix milliseconds. */
  readonly tick: number
  /** `overlap`: another job of the schedule was unfinished. `missed`: no worker was running, or the job was refused until the next tick. */
  readonly reason: "overlap" | "missed"
}

/** A tick as its job carries it, in store time, Unix milliseconds. */
export interface SubmittedTick {
  readonly name: string
  readonly tickAt: number
  /** The last tick before that has a job; `null` for the first. */
  readonly previousAt: number | null
}

/** Jobs that are submitted again and again. Stored under a name. */
export interface Schedule {
  readonly kind: string
  readonly request: JsonObject
  /** The owner of its jobs. */
  readonly owner: { readonly projectId: ProjectId; readonly keyId: KeyId; readonly mode: JobMode }
  readonly priority: Priority
  readonly timing: ScheduleTiming
  readonly missed: MissedTicks
  readonly paused: boolean
  /** The last tick that has a job, and the job. Store time, Unix milliseconds. */
  readonly last: { readonly tick: number; readonly jobId: JobId } | null
  /** Why the job of the current tick was refused; `null` once it is accepted. */
  readonly refusal: string | null
  // Absent in schedules of earlier versions and where they have their defaults.
  /** Default `allow`. */
  readonly overlap?: Overlap | undefined
  readonly tags?: ReadonlyArray<string> | undefined
  /** The longest delay of a job after its tick, in milliseconds. */
  readonly jitterMs?: number | undefined
  /** The last moment at which the schedule may tick. Store time, Unix milliseconds. */
  readonly endsAt?: number | undefined
  readonly skipped?: SkippedTicks | undefined
  /** True while the job of the current tick waits for another one of the schedule. */
  readonly waits?: boolean | undefined
  /** The last job that was submitted outside of the ticks. */
  readonly manual?: { readonly at: number; readonly jobId: JobId } | undefined
}

const timesOf = (timing: { readonly cron: string; readonly timeZone: string }): CronTimes =>
  new CronTimes(timing.cron, timing.timeZone)

/**
 * Returns what is wrong with a timing; `undefined` if it is valid. Seconds are no field of a cron expression: a job a second is a
 * queue, not a schedule.
 */
export const timingProblem = (timing: ScheduleTiming): string | undefined => {
  if (!("cron" in timing))
    return Number.isSafeInteger(timing.everyMs) && timing.everyMs >= 1_000 && timing.everyMs <= longestIntervalMs
      ? undefined
      : "everyMs must be an integer from 1,000 (a second) to 31,622,400,000 (366 days)"
  if (timing.cron.trim().split(/\s+/).length !== 5)
    return `cron must have five fields (minute, hour, day, month, weekday), not "${timing.cron}"`
  const times = Result.try(() => timesOf(timing))
  if (Result.isFailure(times))
    return isTimeZone(timing.timeZone)
      ? cronProblem(timing.cron)
      : `unknown timeZone "${timing.timeZone}"; use an IANA name, such as "Europe/Berlin"`
  return Result.isFailure(Result.try(() => times.success.next(0))) ? `cron "${timing.cron}" never occurs` : undefined
}

const cronFields = [
  ["minute", "0 to 59"],
  ["hour", "0 to 23"],
  ["day", "1 to 31"],
  ["month", "1 to 12, or JAN to DEC"],
  ["weekday", "0 to 6, or SUN to SAT"],
] as const

/** Names the first field that is invalid by itself. */
const cronProblem = (cron: string): string => {
  const fields = cron.trim().split(/\s+/)
  for (const [index, [name, range]] of cronFields.entries()) {
    const alone = fields.map((field, at) => (at === index ? field : "*")).join(" ")
    if (Result.isFailure(Result.try(() => timesOf({ cron: alone, timeZone: "UTC" }))))
      return `invalid cron "${cron}": the ${name} must be ${range}, a list, a range or a step, not "${fields[index]}"`
  }
  return `invalid cron "${cron}"`
}

const longestIntervalMs = 366 * 24 * 3_600_000

const isTimeZone = (name: string): boolean =>
  Result.isSuccess(Result.try(() => new Intl.DateTimeFormat("en", { timeZone: name })))

/** Returns the first tick after a time. */
export const nextTick = (timing: ScheduleTiming, after: number): number => {
  if ("cron" in timing) return timesOf(timing).next(after)
  const { everyMs, from } = timing
  return after < from ? from : from + (Math.floor((after - from) / everyMs) + 1) * everyMs
}

/** Returns the last tick at or before a time, given one at or before it. */
const lastTick = (timing: ScheduleTiming, known: number, now: number): number => {
  if (nextTick(timing, known) > now) return known
  if ("cron" in timing) return Math.max(known, timesOf(timing).lastUntil(now))
  return timing.from + Math.floor((now - timing.from) / timing.everyMs) * timing.everyMs
}

/** Returns the first tick of a schedule after a time; `null` if it has ended by then. */
export const followingTick = (
  { endsAt, timing }: Pick<Schedule, "endsAt" | "timing">,
  after: number,
): number | null => {
  const next = nextTick(timing, after)
  return endsAt !== undefined && next > endsAt ? null : next
}

/** Maximum number of missed ticks that get a job with `missed: "each"`. */
const maxBackfill = 100
const mostCounted = 1_000

/** Returns the ticks from one tick up to another, at most `most`. */
const ticksFrom = (timing: ScheduleTiming, first: number, last: number, most: number): ReadonlyArray<number> => {
  const ticks: Array<number> = []
  for (let tick = first; tick <= last && ticks.length < most; tick = nextTick(timing, tick)) ticks.push(tick)
  return ticks
}

/** Returns the first of the last `maxBackfill` ticks of a range. */
const firstToBackfill = (timing: ScheduleTiming, first: number, last: number): number => {
  if (!("cron" in timing)) return Math.max(first, last - (maxBackfill - 1) * timing.everyMs)
  const times = timesOf(timing)
  // The range may be of years, so it is read from its end.
  for (let windowMs = maxBackfill * 60_000; ; windowMs *= 2) {
    const from = Math.max(first, times.lastUntil(last - windowMs))
    const ticks = ticksFrom(timing, from, last, Infinity)
    const found = ticks[ticks.length - maxBackfill]
    if (found !== undefined || from === first) return found ?? first
  }
}

/** Ticks this late are not missed: processes look at schedules every half minute. */
const graceMs = 60_000

/** A due schedule. */
export interface DueTick {
  /** The tick that gets a job; `undefined` if all due ticks were missed. */
  readonly tick: number | undefined
  /** The tick after that; `null` if the schedule ends before. */
  readonly nextAt: number | null
  /** The schedule with the due ticks that get no job. */
  readonly schedule: Schedule
}

/** Adds ticks that get no job to a schedule. */
export const withSkipped = (
  schedule: Schedule,
  count: number,
  tick: number,
  reason: SkippedTicks["reason"],
): Schedule =>
  count === 0 ? schedule : { ...schedule, skipped: { count: (schedule.skipped?.count ?? 0) + count, tick, reason } }

/**
 * Decides what is due at a time, given the earliest tick that was not handled yet. A tick whose job was refused, or waits for another
 * one of the schedule, is not missed, however late it is.
 */
export const dueTick = (schedule: Schedule, nextAt: number, now: number): DueTick => {
  const { endsAt = Infinity, missed, refusal, timing, waits = false } = schedule
  // The end was changed by a process that knows none.
  if (nextAt > endsAt) return { tick: undefined, nextAt: null, schedule }
  const latest = lastTick(timing, nextAt, Math.min(now, endsAt))
  const isHeld = refusal !== null || waits
  const isMissed = now - latest > graceMs && !(isHeld && latest === nextAt)
  const tick =
    missed === "each" ? firstToBackfill(timing, nextAt, latest) : missed === "once" || !isMissed ? latest : undefined
  const reason = waits ? "overlap" : "missed"
  const lastSkipped = tick === undefined ? latest : tick === nextAt ? undefined : lastBefore(timing, nextAt, tick)
  return {
    tick,
    nextAt: followingTick(schedule, tick ?? latest),
    schedule:
      lastSkipped === undefined
        ? schedule
        : withSkipped(schedule, countTicks(timing, nextAt, lastSkipped), lastSkipped, reason),
  }
}

/** Returns the last tick before another, given one before it. */
const lastBefore = (timing: ScheduleTiming, known: number, tick: number): number =>
  "cron" in timing ? Math.max(known, timesOf(timing).lastUntil(tick - 1)) : tick - timing.everyMs

/** Returns the number of ticks from one up to another, counting up to `mostCounted` of a cron expression. */
const countTicks = (timing: ScheduleTiming, first: number, last: number): number =>
  "cron" in timing
    ? ticksFrom(timing, first, last, mostCounted).length
    : Math.floor((last - first) / timing.everyMs) + 1

/** Returns by how many milliseconds the job of a tick comes later: the same for each process that submits it. */
export const jitterOf = ({ jitterMs = 0 }: Pick<Schedule, "jitterMs">, name: string, tick: number): number =>
  jitterMs === 0 ? 0 : crc32(new TextEncoder().encode(tickKey(name, tick))) % (jitterMs + 1)

/**
 * The idempotency key of a tick's job. It contains a space, which no key of a caller does. Whatever processes, crashes and repeats
 * meet at a tick, they get the same job.
 */
export const tickKey = (name: string, tick: number): string => `schedule ${new Date(tick).toISOString()} ${name}`
