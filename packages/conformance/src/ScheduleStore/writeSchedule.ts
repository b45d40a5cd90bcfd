import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { ScheduleStore } from "@kiln/core/ports"
import { advance } from "../arrange.ts"
import { check, type Section } from "../Check.ts"

const nightly = { nextAt: 5_000, document: '{"kind":"digest","é":"😀"}' }

const only = Effect.gen(function* () {
  const { schedules } = yield* (yield* ScheduleStore).listSchedules
  const [schedule] = schedules
  if (schedule === undefined || schedules.length > 1) throw new Error(`${schedules.length} schedules`)
  return schedule
})

export const writeSchedule: Section<ScheduleStore> = {
  name: "ScheduleStore.writeSchedule",
  checks: [
    check(
      "writes what does not exist yet, and returns it as it was written",
      Effect.gen(function* () {
        const store = yield* ScheduleStore
        expect(yield* store.writeSchedule("nightly", 0, nightly)).toBe(true)
        expect(yield* only).toMatchObject({ name: "nightly", ...nightly })
        expect((yield* only).version).toBeGreaterThan(0)
      }),
    ),
    check(
      "writes only over the version that the caller has read",
      Effect.gen(function* () {
        const store = yield* ScheduleStore
        yield* store.writeSchedule("nightly", 0, nightly)
        const { version } = yield* only
        expect(yield* store.writeSchedule("nightly", 0, { nextAt: 1, document: "{}" })).toBe(false)
        expect(yield* store.writeSchedule("nightly", version + 1, null)).toBe(false)
        expect(yield* store.writeSchedule("other", version, nightly)).toBe(false)
        expect(yield* only).toMatchObject(nightly)
        expect(yield* store.writeSchedule("nightly", version, { nextAt: null, document: "{}" })).toBe(true)
        expect(yield* store.writeSchedule("nightly", version, nightly)).toBe(false)
        expect(yield* only).toMatchObject({ nextAt: null, document: "{}" })
      }),
    ),
    check(
      "of many writers of one version, one succeeds",
      Effect.gen(function* () {
        const store = yield* ScheduleStore
        yield* store.writeSchedule("nightly", 0, nightly)
        const { version } = yield* only
        const written = yield* Effect.forEach(
          Array.from({ length: 12 }, (_, n) => n),
          (n) => store.writeSchedule("nightly", version, { nextAt: n, document: `${n}` }),
          { concurrency: "unbounded" },
        )
        expect(written.filter(Boolean)).toHaveLength(1)
        expect((yield* only).document).toBe(`${written.indexOf(true)}`)
      }),
    ),
    check(
      "a schedule that was removed comes back with a higher version: no stale writer takes it for the old one",
      Effect.gen(function* () {
        const store = yield* ScheduleStore
        yield* store.writeSchedule("nightly", 0, nightly)
        const { version } = yield* only
        expect(yield* store.writeSchedule("nightly", version, null)).toBe(true)
        expect((yield* store.listSchedules).schedules).toEqual([])
        expect(yield* store.writeSchedule("nightly", version, nightly)).toBe(false)
        expect(yield* store.writeSchedule("nightly", 0, null)).toBe(true)
        yield* advance(1_000)
        yield* store.writeSchedule("nightly", 0, nightly)
        expect((yield* only).version).toBeGreaterThan(version)
        expect(yield* store.writeSchedule("nightly", version, null)).toBe(false)
      }),
    ),
  ],
}

export const nextSchedules: Section<ScheduleStore> = {
  name: "ScheduleStore.nextSchedules",
  checks: [
    check(
      "lists by name; the next ones by time, without paused ones",
      Effect.gen(function* () {
        const store = yield* ScheduleStore
        for (const [name, nextAt] of [
          ["c", 10],
          ["B", 30],
          ["a", null],
          ["d", 20],
          ["b", 10],
        ] as const)
          yield* store.writeSchedule(name, 0, { nextAt, document: name })
        const names = (read: { readonly schedules: ReadonlyArray<{ readonly name: string }> }) =>
          read.schedules.map(({ name }) => name)
        expect(names(yield* store.listSchedules)).toEqual(["B", "a", "b", "c", "d"])
        expect(names(yield* store.nextSchedules(10))).toEqual(["b", "c", "d", "B"])
        expect(names(yield* store.nextSchedules(2))).toEqual(["b", "c"])
        expect(names(yield* store.nextSchedules(2, { nextAt: 10, name: "b" }))).toEqual(["c", "d"])
        expect(names(yield* store.nextSchedules(2, { nextAt: 10, name: "bb" }))).toEqual(["c", "d"])
        expect(names(yield* store.nextSchedules(9, { nextAt: 20, name: "d" }))).toEqual(["B"])
        expect(names(yield* store.nextSchedules(9, { nextAt: 30, name: "B" }))).toEqual([])
        expect(names(yield* store.findSchedule("a"))).toEqual(["a"])
        expect(names(yield* store.findSchedule("A"))).toEqual([])
      }),
    ),
    check(
      "tells store time",
      Effect.gen(function* () {
        const store = yield* ScheduleStore
        const before = (yield* store.nextSchedules(1)).now
        yield* advance(60_000)
        expect((yield* store.nextSchedules(1)).now).toBe(before + 60_000)
        expect((yield* store.listSchedules).now).toBe(before + 60_000)
        expect((yield* store.findSchedule("a")).now).toBe(before + 60_000)
      }),
    ),
  ],
}
