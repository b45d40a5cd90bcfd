import type { JobMode } from "../domain/Access.ts"
import type { JobId } from "../domain/Ids.ts"
import type { Json } from "../domain/givenValues.ts"
import type { Priority, PriorityName } from "../domain/Priority.ts"
import type { MissedTicks, Overlap } from "../domain/Schedule.ts"
import type { InputOf, Kind } from "../kinds/KindDefinition.ts"
import type { AbortOption, ProjectOption } from "./CallOptions.ts"
import type { SubmittedJob } from "./JobResult.ts"

/** When a schedule submits its jobs. */
export type ScheduleTimes =
  | {
      /** Five fields: minute, hour, day, month and weekday. Lists, ranges, steps and names are allowed: `0 7 * * mon-fri`. */
      readonly cron: string
      /**
       * An IANA name, default `UTC`. A local time that a change to summer time skips ticks as much later; one that occurs twice in
       * autumn ticks the first time.
       */
      readonly timeZone?: string
      readonly everyMs?: undefined
    }
  | {
      /** Milliseconds between two jobs, at least 1,000. The first comes one interval after the schedule is set. */
      readonly everyMs: number
      readonly cron?: undefined
      readonly timeZone?: undefined
    }

interface ScheduleDetails extends ProjectOption {
  /** Default as for `submit`. */
  readonly mode?: JobMode
  /** As for `submit`. */
  readonly priority?: PriorityName | number
  /**
   * The treatment of ticks at which no worker was running. `once` (the default) submits one job for all of them as soon as a worker
   * runs; `skip` waits for the next tick, unless the latest is at most a minute old; `each` submits a job for each of the last 100, one
   * by one, in order.
   */
  readonly missed?: MissedTicks
  /**
   * The treatment of a tick while the last job of the schedule, or a retry of it, is unfinished. `allow` (the default) submits its job
   * beside the other; `skip` submits none; `queue` submits it once the other has finished. Of several ticks that wait, `missed` decides:
   * the latest gets a job, or, with `each`, all of them in order.
   */
  readonly overlap?: Overlap
  /** Tags of its jobs, as for `submit`. */
  readonly tags?: ReadonlyArray<string>
  /**
   * Milliseconds by which a job may start later than its tick, up to a day, and for an interval up to that. Each tick has its own delay,
   * so that jobs of many schedules do not start at once. Default 0.
   */
  readonly jitterMs?: number
  /** The last moment at which the schedule may tick. A schedule that has ended stays in the list until it is removed or set again. */
  readonly endsAt?: Date
}

/** A schedule: which job it submits, and when. */
export type ScheduleOptions<K extends Kind> = K extends Kind
  ? { readonly kind: K["name"]; readonly request: InputOf<K> } & ScheduleTimes & ScheduleDetails
  : never

/** A schedule in a list. */
export interface ListedSchedule {
  readonly name: string
  readonly kind: string
  readonly request: Json
  readonly cron: string | undefined
  readonly timeZone: string | undefined
  readonly everyMs: number | undefined
  /** The project's id, `prj_…`. */
  readonly projectId: string
  readonly mode: JobMode
  readonly priority: Priority
  readonly missed: MissedTicks
  readonly overlap: Overlap
  readonly tags: ReadonlyArray<string>
  readonly jitterMs: number
  readonly endsAt: Date | null
  readonly paused: boolean
  /** The next tick; `null` while paused, and after the end. In the past if its job is refused or waits, or no worker was running. */
  readonly nextAt: Date | null
  /** The last tick that has a job; `null` before the first. */
  readonly lastAt: Date | null
  readonly lastJobId: JobId | null
  /** The error code with which the job of the current tick is refused. It is tried again until the next tick. */
  readonly refusal: string | null
  /** Whether the job of the current tick waits until the last one has finished. */
  readonly waits: boolean
  /** Number of ticks that got no job; at most 1,000 are counted for each outage. */
  readonly skipped: number
  readonly lastSkippedAt: Date | null
  /** `overlap`: the last job was unfinished. `missed`: no worker was running, or the job was refused until the next tick. */
  readonly lastSkipReason: "overlap" | "missed" | null
}

export interface RunNowOptions extends AbortOption {
  /**
   * Repeating a call with the same key returns the job that the first one submitted, also once it has finished. A call that resolved
   * with the job of another call (`deduplicated`) submitted none, so its key is free.
   */
  readonly idempotencyKey?: string
}

/**
 * Jobs that are submitted again and again. Schedules are in the store, and every worker of the installation that has the kind looks
 * at them: each tick gets exactly one job or is skipped by the schedule's rules, whatever workers run, crash or have a wrong clock.
 */
export interface ScheduleVerbs<K extends Kind> {
  /**
   * Sets the schedule with this name, 1 to 100 letters, digits, `-`, `_`, `.` and `:`. Repeating the call changes nothing, so
   * every process can set its schedules when it starts. A schedule that is paused stays paused.
   */
  readonly set: (name: string, schedule: ScheduleOptions<K>, options?: AbortOption) => Promise<void>
  /** Returns all schedules, by name. */
  readonly list: (options?: AbortOption) => Promise<ReadonlyArray<ListedSchedule>>
  /** Ticks during a pause get no job. Rejects with a `TypeError` if there is no schedule with this name. */
  readonly pause: (name: string, options?: AbortOption) => Promise<void>
  /** Continues with the next tick. */
  readonly resume: (name: string, options?: AbortOption) => Promise<void>
  /**
   * Submits a job of the schedule now, also while it is paused or has ended; its ticks stay as they are. While the job of an earlier call
   * is unfinished, the call resolves with that one, marked `deduplicated`, and for a schedule whose jobs must not overlap with the
   * unfinished job of its last tick. Repeating a call that submitted a job with the same `idempotencyKey` resolves with that job also later.
   * Rejects with a `TypeError` if there is no schedule with this name.
   */
  readonly runNow: (name: string, options?: RunNowOptions) => Promise<SubmittedJob<K>>
  /** Removes a schedule; its jobs stay. Removing one that does not exist has no effect. */
  readonly remove: (name: string, options?: AbortOption) => Promise<void>
}
