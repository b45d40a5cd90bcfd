import { nextScheduleVersion, ScheduleStore, type StoredSchedule } from "@kiln/core/ports"
import { type MemoryState, step } from "./MemoryState.ts"

/** The reference model of `ScheduleStore`. */
export const makeMemoryScheduleStore = (state: MemoryState): ScheduleStore["Service"] =>
  ScheduleStore.of({
    listSchedules: step((now) => ({ now, schedules: [...state.schedules.values()].sort(byName) })),
    nextSchedules: (limit) =>
      step((now) => {
        const running = [...state.schedules.values()].filter(({ nextAt }) => nextAt !== null)
        return { now, schedules: running.sort(byTime).slice(0, limit) }
      }),
    writeSchedule: (name, version, next) =>
      step((now) => {
        if ((state.schedules.get(name)?.version ?? 0) !== version) return false
        if (next === null) state.schedules.delete(name)
        else
          state.schedules.set(
            name,
            Object.freeze({
              name,
              version: nextScheduleVersion(version, now),
              nextAt: next.nextAt,
              document: next.document,
            }),
          )
        return true
      }),
  })

const byName = (a: StoredSchedule, b: StoredSchedule): number => (a.name < b.name ? -1 : 1)

const byTime = (a: StoredSchedule, b: StoredSchedule): number => (a.nextAt ?? 0) - (b.nextAt ?? 0) || byName(a, b)
