import { defaultEngineSettings, JobEvents } from "@kiln/core/effect"
import { AuditLog } from "@kiln/core/ports"
import { pruneOnce } from "@kiln/core/worker"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/testing/TestClock"
import { expect } from "vitest"
import { chargesPerDay, filesOfJobsPerDay, filesPerDay, jobsPerDay, oneDay } from "./oneDay.ts"
import type { Measured, Place } from "./places.ts"

const dayMs = 86_400_000
const days = 365
const dataDays = defaultEngineSettings.dataRetentionMs / dayMs
const recordDays = defaultEngineSettings.jobRetentionMs / dayMs
/** A day with very many jobs, whose space must not stay taken. */
const burstDay = 140
const burst = 12_000
const auditMs = 300 * dayMs
/** Unused space that SQLite keeps for new jobs. */
const reserve = 4_500_000

/** Measures on these days, after the sweep. */
const measuredOn = new Set([dataDays + 5, 130, burstDay + 1, burstDay + dataDays + 2, burstDay + recordDays + 2, days])

const liveThrough = (place: Place): Promise<ReadonlyMap<number, Measured>> =>
  Effect.gen(function* () {
    const measured = new Map<number, Measured>()
    for (let day = 1; day <= days; day++) {
      yield* oneDay(day, day === burstDay ? burst : 0)
      yield* place.passDay(day)
      yield* pruneOnce
      yield* (yield* AuditLog).prune(auditMs)
      if (measuredOn.has(day)) {
        // The log of the database is truncated at most every two seconds.
        yield* TestClock.adjust(2_000)
        measured.set(day, yield* Effect.promise(place.measure))
      }
    }
    return measured
  }).pipe(
    Effect.provide(place.layer),
    Effect.provide(JobEvents.layer),
    Effect.scoped,
    Effect.provide(TestClock.layer()),
    Effect.runPromise,
  )

/**
 * Lives through a year with default retention: every day jobs, files and uploads, one day with very many. Rows, files and size must stay
 * bounded, and no data may outlive its retention.
 */
export const expectBoundedYear = async (open: () => Promise<Place>): Promise<void> => {
  await using place = await open()
  const measured = await liveThrough(place)
  const on = (day: number): Measured => {
    const found = measured.get(day)
    if (found === undefined) throw new Error(`day ${day} was not measured`)
    return found
  }
  for (const [day, { canaries, oldestResidue = day }] of measured) {
    expect(Math.min(...canaries), `canaries on day ${day}`).toBeGreaterThanOrEqual(day - dataDays + 2)
    // SQLite leaves copies of moved cells in unused parts of its pages until the page is free.
    expect(oldestResidue, `bytes of the file on day ${day}`).toBeGreaterThanOrEqual(day - recordDays)
    // They would be found.
    expect(canaries).toContain(day - 1)
  }
  const { charges: firstCharges = 0, ...steady } = on(130).rows
  const { charges = 0, ...last } = on(days).rows
  // The ledger is kept: it is the record of what was charged.
  expect([firstCharges, charges]).toEqual([130 * chargesPerDay, days * chargesPerDay])
  expect(last["audit"]).toBe(auditMs / dayMs - 1)
  const { audit: _, ...rest } = last
  for (const [table, rows] of Object.entries(rest))
    expect(rows, `rows of ${table}`).toBeLessThanOrEqual((steady[table] ?? 0) + 10)
  expect(last["jobs"]).toBeLessThanOrEqual(jobsPerDay * (recordDays + 1))
  expect(on(days).files).toBeLessThanOrEqual(filesPerDay * (dataDays + 1) + 10)
  expect(on(days).files).toBeGreaterThan(filesOfJobsPerDay * (dataDays - 2))

  // The burst is visible, and then its space goes back or is used again.
  const [before, peak, end] = [on(130).bytes, on(burstDay + 1).bytes, on(days).bytes]
  const ledger = (days - 130) * chargesPerDay * 600
  expect(peak).toBeGreaterThan(before + 1_000 * burst)
  expect(end).toBeLessThanOrEqual((place.returnsSpace ? before + reserve : 1.1 * peak) + ledger)
}
