import { nextScheduleVersion, ScheduleStore, type StoredSchedule } from "@kiln/core/ports"
import { type MemoryState, step } from "./MemoryState.ts"

/** The reference model of `ScheduleStore`. */
export const makeMemoryScheduleStore = (state: MemoryState): ScheduleStore["Service"] =>
  ScheduleStore.of({
    listSchedules: step((now) => ({ now, schedules: [...state.schedules.values()].sort(byName) })),
    findSchedule: (name) =>
      step((now) => {
        const schedule = state.schedules.get(name)
        return { now, schedules: schedule === undefined ? [] : [schedule] }
      }),
    nextSchedules: (limit, after) =>
      step((now) => {
        const running = [...state.schedules.values()].filter(
          (schedule) => schedule.nextAt !== null && (after === undefined || byTime(schedule, after) > 0),
        )
        return { now, schedules: running.sort(byTime).slice(0, limit) }
      }),
    writeSchedule: (name, version, next) =>
      step((now) => {
        if ((state.schedules.get(name)?.version ?? 0) !== version) return false
        if (next === null) state.schedules.delete(name)
        else replaceSchedule(state, { name, version }, next, now)
        return true
      }),
  })

/** Replaces a schedule that has this version. */
export const replaceSchedule = (
  state: MemoryState,
  { name, version }: Pick<StoredSchedule, "name" | "version">,
  { document, nextAt }: Pick<StoredSchedule, "nextAt" | "document">,
  now: number,
): void =>
  void state.schedules.set(name, Object.freeze({ name, version: nextScheduleVersion(version, now), nextAt, document }))

type Timed = Pick<StoredSchedule, "name" | "nextAt">

const byName = (a: Timed, b: Timed): number => (a.name === b.name ? 0 : a.name < b.name ? -1 : 1)

const byTime = (a: Timed, b: Timed): number => (a.nextAt ?? 0) - (b.nextAt ?? 0) || byName(a, b)
