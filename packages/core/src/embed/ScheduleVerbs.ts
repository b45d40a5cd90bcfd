import type { JobMode } from "../domain/Access.ts"
import type { JobId } from "../domain/Ids.ts"
import type { Json } from "../domain/Json.ts"
import type { Priority, PriorityName } from "../domain/Priority.ts"
import type { MissedTicks } from "../domain/Schedule.ts"
import type { InputOf, Kind } from "../kinds/KindTypes.ts"
import type { AbortOption, ProjectOption } from "./CommonOptions.ts"

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
   * runs; `skip` waits for the next tick.
   */
  readonly missed?: MissedTicks
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
  readonly paused: boolean
  /** The next tick; `null` while paused. In the past if its job is refused, or no worker was running. */
  readonly nextAt: Date | null
  /** The last tick that has a job; `null` before the first. */
  readonly lastAt: Date | null
  readonly lastJobId: JobId | null
  /** The error code with which the job of the current tick is refused. It is tried again until the next tick. */
  readonly refusal: string | null
}

/**
 * Jobs that are submitted again and again. Schedules are in the store, and every worker of the installation that has the kind looks
 * at them: each tick gets exactly one job, whatever workers run, crash or have a wrong clock.
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
  /** Removes a schedule; its jobs stay. Removing one that does not exist has no effect. */
  readonly remove: (name: string, options?: AbortOption) => Promise<void>
}
