import * as Effect from "effect/Effect"
import type { StoreUnavailable } from "../domain/index.ts"
import { followingTick, type Schedule } from "../domain/Schedule.ts"
import { ScheduleStore, type StoredSchedule } from "../ports/index.ts"

/** A schedule with its next tick, store time; `null` while it is paused, and once it has ended. */
export type PlacedSchedule = Schedule & Pick<StoredSchedule, "nextAt">

export const decodeSchedule = ({ document }: StoredSchedule): Schedule => JSON.parse(document) as Schedule

const placed = (stored: StoredSchedule): PlacedSchedule => ({ ...decodeSchedule(stored), nextAt: stored.nextAt })

const written = (next: PlacedSchedule | null) => {
  if (next === null) return null
  const { nextAt, ...schedule } = next
  return { nextAt, document: JSON.stringify(schedule) }
}

/** Decides what to write instead of a stored schedule; `null` removes it. */
export type ScheduleChange = (stored: StoredSchedule | undefined, now: number) => PlacedSchedule | null | "unchanged"

/**
 * Repeats a change until it is made to what is stored at that moment: a worker may advance the schedule meanwhile. Returns whether
 * the schedule existed before.
 */
export const changeSchedule = Effect.fnUntraced(function* (
  name: string,
  change: ScheduleChange,
): Effect.fn.Return<boolean, StoreUnavailable, ScheduleStore> {
  const store = yield* ScheduleStore
  while (true) {
    const {
      now,
      schedules: [stored],
    } = yield* store.findSchedule(name)
    const next = change(stored, now)
    if (next === "unchanged" || (yield* store.writeSchedule(name, stored?.version ?? 0, written(next))))
      return stored !== undefined
  }
})

const changeExisting = (name: string, change: (schedule: PlacedSchedule, now: number) => ReturnType<ScheduleChange>) =>
  changeSchedule(name, (stored, now) => (stored === undefined ? "unchanged" : change(placed(stored), now)))

/** Pauses a schedule: the ticks during a pause get no job. Returns false if it does not exist. */
export const pauseSchedule = (name: string) =>
  changeExisting(name, (schedule) =>
    schedule.paused ? "unchanged" : { ...schedule, paused: true, waits: undefined, nextAt: null },
  )

/** Continues a paused schedule with its next tick. Returns false if it does not exist. */
export const resumeSchedule = (name: string) =>
  changeExisting(name, (schedule, now) =>
    schedule.paused ? { ...schedule, paused: false, nextAt: followingTick(schedule, now) } : "unchanged",
  )

/** Removes a schedule; its jobs stay. Returns false if it does not exist. */
export const removeSchedule = (name: string) => changeExisting(name, () => null)

/** Lists all schedules with the store time at which they were read. */
export const listSchedules = Effect.gen(function* () {
  const { now, schedules } = yield* (yield* ScheduleStore).listSchedules
  return { now, schedules: schedules.map((stored) => ({ name: stored.name, ...placed(stored) })) }
})

/** Makes all schedules continue with their next tick, without jobs for the ticks that are due. Returns how many had due ticks. */
export const skipDueTicks = Effect.gen(function* () {
  const { now, schedules } = yield* listSchedules
  const due = schedules.filter(({ nextAt }) => nextAt !== null && nextAt <= now)
  for (const { name } of due)
    yield* changeExisting(name, (schedule, time) =>
      schedule.nextAt === null || schedule.nextAt > time
        ? "unchanged"
        : { ...schedule, refusal: null, waits: undefined, nextAt: followingTick(schedule, time) },
    )
  return due.length
})
