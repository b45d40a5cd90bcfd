import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { StoreUnavailable } from "../domain/index.ts"

/** A schedule as stores keep it. */
export interface StoredSchedule {
  readonly name: string
  /** Raised by each write. A schedule that is removed and set again later has a higher one than before. */
  readonly version: number
  /** The earliest tick that was not handled yet, in store time; `null` while the schedule is paused, and once it has ended. */
  readonly nextAt: number | null
  readonly document: string
}

/** Schedules, with the store time at which they were read. */
export interface ReadSchedules {
  /** Unix milliseconds. */
  readonly now: number
  readonly schedules: ReadonlyArray<StoredSchedule>
}

/** A place in the order of `nextSchedules`. */
export interface SchedulePosition {
  readonly nextAt: number
  readonly name: string
}

/**
 * The schedules of an installation, by name. A write states the version that it replaces, so that of several processes which handle
 * a tick, one advances the schedule.
 */
export class ScheduleStore extends Context.Service<
  ScheduleStore,
  {
    /** Returns all schedules, by name in code unit order. */
    readonly listSchedules: Effect.Effect<ReadSchedules, StoreUnavailable>
    /** Returns the schedule with this name, or none. */
    readonly findSchedule: (name: string) => Effect.Effect<ReadSchedules, StoreUnavailable>
    /**
     * Returns up to `limit` schedules that are not paused, the ones that are due first, then by name; with `after`, those that follow
     * it in this order.
     */
    readonly nextSchedules: (limit: number, after?: SchedulePosition) => Effect.Effect<ReadSchedules, StoreUnavailable>
    /**
     * Replaces the schedule if it still has this version, 0 for one that does not exist; `null` removes it. Returns false and
     * writes nothing if another process was first.
     */
    readonly writeSchedule: (
      name: string,
      version: number,
      next: Pick<StoredSchedule, "nextAt" | "document"> | null,
    ) => Effect.Effect<boolean, StoreUnavailable>
  }
>()("@kiln/core/ports/ScheduleStore") {}

/** The version of a schedule that is written now: above the one it replaces, and above all that it ever had. */
export const nextScheduleVersion = (version: number, now: number): number => Math.max(version + 1, now)
