import * as Result from "effect/Result"
import type { JobMode } from "./Access.ts"
import { CronTimes } from "./CronTimes.ts"
import type { JobId, KeyId, ProjectId } from "./Ids.ts"
import type { JsonObject } from "./Json.ts"
import type { Priority } from "./Priority.ts"

/** When a schedule ticks: by a cron expression of five fields in a time zone, or at a fixed interval from a moment on. */
export type ScheduleTiming =
  | { readonly cron: string; readonly timeZone: string }
  | {
      /** Milliseconds. */
      readonly everyMs: number
      /** Store time, Unix milliseconds. */
      readonly from: number
    }

/** The outcome of ticks that came while no worker was running: one job for the latest of them, or none. */
export type MissedTicks = "once" | "skip"

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
  if (Result.isFailure(times)) return isTimeZone(timing.timeZone) ? `invalid cron "${timing.cron}"` : "unknown timeZone"
  return Result.isFailure(Result.try(() => times.success.next(0))) ? `cron "${timing.cron}" never occurs` : undefined
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

/** Ticks this late are not missed: processes look at schedules every half minute. */
const graceMs = 60_000

/** A due schedule: the tick that gets a job, or none if all due ticks were missed, and the tick after that. */
export interface DueTick {
  readonly tick: number | undefined
  readonly nextAt: number
}

/**
 * Decides what is due at a time, given the earliest tick that was not handled yet. Only the latest of several due ticks gets a job. A
 * tick whose job was refused is not missed, however late it is.
 */
export const dueTick = ({ missed, refusal, timing }: Schedule, nextAt: number, now: number): DueTick => {
  const latest = lastTick(timing, nextAt, now)
  const isMissed = now - latest > graceMs && (refusal === null || latest !== nextAt)
  return {
    tick: missed === "once" || !isMissed ? latest : undefined,
    nextAt: nextTick(timing, latest),
  }
}

/**
 * The idempotency key of a tick's job. It contains a space, which no key of a caller does. Whatever processes, crashes and repeats
 * meet at a tick, they get the same job.
 */
export const tickKey = (name: string, tick: number): string => `schedule ${new Date(tick).toISOString()} ${name}`
