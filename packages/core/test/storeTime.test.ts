import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { type ClockReading, describeJump, StoreTime } from "@kiln/core/rules"

interface StoreTimeLike {
  readonly now: (reading: ClockReading, kept?: number) => number
}

/** An event on one machine: time passes, its wall clock is set, a process restarts, or a process reads or writes. */
type Step =
  | { readonly passMs: number }
  | { readonly setByMs: number }
  | { readonly restart: number }
  | { readonly read: number; readonly writes: boolean }

const processes = 3
const hour = 3_600_000

const steps: fc.Arbitrary<ReadonlyArray<Step>> = fc.array(
  fc.oneof(
    fc.record({ passMs: fc.constantFrom(0, 0.25, 1, 9, 1_000, 60_000) }),
    fc.record({ setByMs: fc.constantFrom(-24 * hour, -hour, -3, 2, hour, 24 * hour) }),
    fc.record({ restart: fc.nat(processes - 1) }),
    { weight: 4, arbitrary: fc.record({ read: fc.nat(processes - 1), writes: fc.boolean() }) },
  ),
  { maxLength: 60, size: "max" },
)

interface Seen {
  readonly process: number
  readonly time: number
  readonly wallMs: number
  readonly monotonicMs: number
  /** Milliseconds by the monotonic clock since this process read last; `undefined` after a start. */
  readonly sinceMs: number | undefined
  readonly before: number | undefined
  readonly kept: number
}

const run = (make: () => StoreTimeLike, history: ReadonlyArray<Step>): ReadonlyArray<Seen> => {
  const start = () => ({ storeTime: make(), last: undefined as { time: number; at: number } | undefined })
  const alive = Array.from({ length: processes }, start)
  const seen: Array<Seen> = []
  let wallMs = 1_800_000_000_000
  let monotonicMs = 77
  let kept = 0
  for (const step of history) {
    if ("passMs" in step) {
      wallMs += step.passMs
      monotonicMs += step.passMs
    } else if ("setByMs" in step) wallMs += step.setByMs
    else if ("restart" in step) alive[step.restart] = start()
    else {
      const one = alive[step.read] ?? start()
      const reading = { wallMs: Math.floor(wallMs), monotonicMs }
      const time = one.storeTime.now(reading, kept)
      const { last } = one
      const sinceMs = last === undefined ? undefined : monotonicMs - last.at
      seen.push({ process: step.read, time, ...reading, sinceMs, before: last?.time, kept })
      one.last = { time, at: monotonicMs }
      if (step.writes) kept = Math.max(kept, time)
    }
  }
  return seen
}

const forAll = (make: () => StoreTimeLike, check: (seen: Seen) => void): void =>
  fc.assert(
    fc.property(steps, (history) => {
      for (const seen of run(make, history)) check(seen)
    }),
    { numRuns: 1_000, seed: 1 },
  )

const properties: Readonly<Record<string, (make: () => StoreTimeLike) => void>> = {
  "never goes backwards, not over a restart and not from process to process": (make) =>
    forAll(make, ({ before, kept, time }) => expect(time).toBeGreaterThanOrEqual(Math.max(before ?? 0, kept))),

  "never stands still, regardless of the wall clock": (make) =>
    forAll(make, ({ before, sinceMs, time }) => {
      if (before !== undefined && sinceMs !== undefined)
        expect(time - before).toBeGreaterThanOrEqual(Math.floor(0.9 * sinceMs) - 1)
    }),

  "is the wall clock's, wherever that is not behind": (make) =>
    forAll(make, ({ before, kept, sinceMs, time, wallMs }) => {
      expect(time).toBeGreaterThanOrEqual(wallMs)
      if (wallMs >= Math.max(kept, (before ?? 0) + (sinceMs ?? 0) + 1)) expect(time).toBe(wallMs)
    }),

  "comes back to the wall clock": (make) => {
    const storeTime = make()
    const read = (wallMs: number, monotonicMs: number) => storeTime.now({ wallMs, monotonicMs })
    expect(read(10 * hour, 0)).toBe(10 * hour)
    expect(read(9 * hour, 0)).toBe(10 * hour)
    expect(read(10 * hour, hour)).toBe(Math.floor(10.9 * hour))
    expect(read(18 * hour, 9 * hour)).toBe(Math.floor(18.1 * hour))
    expect(read(19 * hour + 5, 10 * hour + 5)).toBe(19 * hour + 5)
  },
}

describe("store time", () => {
  it.each(Object.entries(properties))("%s", (_name, property) => {
    expect(() => property(() => new StoreTime())).not.toThrow()
  })

  it("logs once that the wall clock was set, and by how much, and ignores drift", () => {
    const storeTime = new StoreTime()
    const read = (wallMs: number, monotonicMs: number, kept?: number) => {
      storeTime.now({ wallMs, monotonicMs }, kept)
      return storeTime.takeJump()
    }
    expect(read(10 * hour, 0, 10 * hour)).toBe(undefined)
    expect(read(10 * hour + 1_000, 1_000)).toBe(undefined)
    expect(read(10 * hour + 5_900, 2_000)).toBe(undefined)
    expect(read(11 * hour + 5_900, 2_000)).toBe(hour)
    expect(read(11 * hour + 5_900, 2_000)).toBe(undefined)
    expect(read(10 * hour + 6_900, 3_000)).toBe(-hour)
    const later = new StoreTime()
    later.now({ wallMs: 9 * hour, monotonicMs: 0 }, 10 * hour)
    expect(later.takeJump(), "at the start, against what was kept").toBe(-hour)
    expect(describeJump(hour)).toMatch(/^The wall clock went forward by 3600 s/)
    expect(describeJump(-hour)).toMatch(/^The wall clock went back by 3600 s/)
  })

  const bugs: Readonly<Record<string, readonly [property: string, make: () => StoreTimeLike]>> = {
    "the wall clock alone": [
      "never goes backwards, not over a restart and not from process to process",
      () => ({ now: ({ wallMs }) => wallMs }),
    ],
    "a maximum that each process keeps for itself": [
      "never goes backwards, not over a restart and not from process to process",
      () => {
        const storeTime = new StoreTime()
        return { now: (reading) => storeTime.now(reading) }
      },
    ],
    "a kept maximum that is waited for": [
      "never stands still, regardless of the wall clock",
      () => {
        let latest = 0
        return { now: ({ wallMs }, kept = 0) => (latest = Math.max(latest, wallMs, kept)) }
      },
    ],
    "a clock that was set forward is not followed": [
      "is the wall clock's, wherever that is not behind",
      () => {
        let first: ClockReading | undefined
        let latest = 0
        return {
          now: (reading, kept = 0) => {
            first ??= reading
            return (latest = Math.max(latest, kept, Math.floor(first.wallMs + reading.monotonicMs - first.monotonicMs)))
          },
        }
      },
    ],
    "a lead is never given up": [
      "comes back to the wall clock",
      () => {
        let last: (ClockReading & { time: number }) | undefined
        return {
          now: (reading, kept = 0) => {
            const passedMs = last === undefined ? 0 : reading.monotonicMs - last.monotonicMs
            last = { ...reading, time: Math.max(reading.wallMs, kept, (last?.time ?? 0) + passedMs) }
            return Math.floor(last.time)
          },
        }
      },
    ],
  }
  it.each(Object.entries(bugs))("is not %s", (_name, [property, make]) => {
    expect(() => properties[property]?.(make)).toThrow(/Property failed|expected/)
  })
})
