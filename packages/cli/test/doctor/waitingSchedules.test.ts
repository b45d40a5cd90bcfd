import * as Effect from "effect/Effect"
import { DeliveryStore, ScheduleStore, type StoreInspection, type StoredSchedule } from "@kiln/core/ports"
import { backgroundMeasurement, type Schedule } from "@kiln/core/worker"
import { expect, it } from "vitest"
import { checkSchedules } from "../../src/doctor/checkSchedules.ts"

const hourMs = 3_600_000

const schedule = (nextAt: number | null, rules: Partial<Schedule>): StoredSchedule => ({
  name: "nightly",
  version: 1,
  nextAt,
  document: JSON.stringify({
    kind: "report",
    request: {},
    owner: { projectId: "prj_embedded", keyId: "key_embedded_live", mode: "live" },
    priority: "normal",
    timing: { everyMs: hourMs, from: 0 },
    missed: "once",
    paused: false,
    last: null,
    refusal: null,
    ...rules,
  } satisfies Schedule),
})

const check = (now: number, ...schedules: ReadonlyArray<StoredSchedule>) => {
  const store: Pick<StoreInspection, "listSchedules"> = { listSchedules: Effect.succeed({ now, schedules }) }
  return Effect.runPromise(checkSchedules(store as StoreInspection))
}

const waits = { overlap: "queue", waits: true } as const

it("does not report a tick that waits for the last job of its schedule", async () => {
  expect(await check(hourMs + 600_000, schedule(hourMs, waits))).toMatchObject({ status: "ok" })
  expect(await check(9 * hourMs, schedule(hourMs, { ...waits, missed: "each" }))).toMatchObject({ status: "ok" })
})

it("reports a schedule that no worker looks at, although its last tick waited", async () => {
  const { findings, status } = await check(9 * hourMs, schedule(hourMs, waits))
  expect(status).toBe("problem")
  expect(findings[0]?.message).toMatch(/has been due for/)
})

it("does not count in the gauge of late schedules while its tick waits", async () => {
  const lateWith = async (rules: Partial<Schedule>) => {
    const gauges = new Map<string, number>()
    const family = (name: string) => ({ record: (_: unknown, value: number) => void gauges.set(name, value) })
    const families = { counter: family, gauge: family, histogram: family } as never
    const schedules = { now: 9 * hourMs, schedules: [schedule(hourMs, rules)] }
    const measuring = Effect.flatten(backgroundMeasurement(families)).pipe(
      Effect.provideService(ScheduleStore, { listSchedules: Effect.succeed(schedules) } as never),
      Effect.provideService(DeliveryStore, { countDeliveries: Effect.succeed([]) } as never),
    )
    await Effect.runPromise(measuring)
    return gauges.get("kiln_schedule_oldest_due_seconds")
  }
  expect(await lateWith(waits)).toBe(0)
  expect(await lateWith({})).toBe((8 * hourMs) / 1_000)
})

it("counts a schedule that has ended as one that is not paused", async () => {
  expect(await check(0, schedule(null, { endsAt: 0 }))).toMatchObject({ summary: "1 schedule, none of them late" })
})
