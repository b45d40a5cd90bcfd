import { afterFailure, type FailureReason, type AttemptLimits, defaultAttemptLimits } from "@kiln/core/worker"
import fc from "fast-check"
import { describe, expect, it } from "vitest"

const limits: fc.Arbitrary<AttemptLimits> = fc.record({
  maxFailures: fc.integer({ min: 1, max: 40 }),
  maxLostWorkers: fc.constant(3),
  backoffBaseMs: fc.integer({ min: 1, max: 10_000 }),
  backoffMaxMs: fc.integer({ min: 1, max: 100_000 }),
  retryAfterMaxMs: fc.integer({ min: 1, max: 1_000_000 }),
})
/** The ends of [0, 1), and values in between. */
const jitter = fc.oneof(
  fc.constantFrom(0, 0.999, 1 - Number.EPSILON / 2),
  fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
)
const before = fc.nat(45)
const busy: FailureReason = { errorCode: "provider_unavailable", retry: true }

const ceilingOf = ({ backoffBaseMs, backoffMaxMs }: AttemptLimits, failuresBefore: number) => {
  let ceiling = backoffBaseMs
  for (let failure = 0; failure < failuresBefore; failure++) ceiling *= 2
  return Math.min(ceiling, backoffMaxMs)
}

/** The pause after a failure that is not the last. */
const delayOf = (failure: FailureReason, failuresBefore: number, bounds: AttemptLimits, chance: number): number => {
  const after = afterFailure(failure, failuresBefore, { ...bounds, maxFailures: failuresBefore + 2 }, chance)
  if (after.next !== "defer") throw new Error(`expected a deferral, got ${after.next}`)
  return after.delayMs
}

const always = (check: (bounds: AttemptLimits, failuresBefore: number, chance: number) => void) =>
  fc.assert(
    fc.property(limits, before, jitter, (bounds, failuresBefore, chance) => {
      check(bounds, failuresBefore, chance)
    }),
    { numRuns: 1_000, seed: 1 },
  )

describe("after a failed attempt", () => {
  it("waits a random integer of milliseconds, up to a bound that doubles with each failure, within the limit", () => {
    always((bounds, failuresBefore, chance) => {
      const ceiling = ceilingOf(bounds, failuresBefore)
      const delayMs = delayOf(busy, failuresBefore, bounds, chance)
      expect(Number.isInteger(delayMs)).toBe(true)
      expect(delayMs).toBeGreaterThanOrEqual(0)
      expect(delayMs).toBeLessThan(ceiling)
      // All of that range: no pause is longer than another without chance saying so.
      expect(delayMs).toBe(Math.floor(ceiling * chance))
    })
  })

  it("by default waits at most 1 s, 2 s, 4 s and so on, up to a minute", () => {
    const longest = [0, 1, 2, 3, 4, 5, 6, 7, 40].map((n) => delayOf(busy, n, defaultAttemptLimits, 0.999))
    expect(longest).toEqual([999, 1_998, 3_996, 7_992, 15_984, 31_968, 59_940, 59_940, 59_940])
    expect(delayOf(busy, 3, defaultAttemptLimits, 0)).toBe(0)
  })

  it("waits as long as the provider asks if that is longer, within its limit", () => {
    always((bounds, failuresBefore, chance) => {
      const backoff = delayOf(busy, failuresBefore, bounds, chance)
      const asking = (retryAfterMs: number) => delayOf({ ...busy, retryAfterMs }, failuresBefore, bounds, chance)
      const cap = bounds.retryAfterMaxMs
      const within = [0, 1, backoff - 1, backoff, backoff + 1, cap - 1, cap].filter((asked) => asked <= cap)
      for (const asked of within) expect(asking(asked)).toBe(Math.max(backoff, asked))
      for (const asked of [cap + 1, 1e300, Infinity]) expect(asking(asked)).toBe(Math.max(backoff, cap))
    })
  })

  it("ignores a Retry-After that is not a number of milliseconds", () => {
    always((bounds, failuresBefore, chance) => {
      const backoff = delayOf(busy, failuresBefore, bounds, chance)
      for (const retryAfterMs of [Number.NaN, -1, -1e300, -Infinity, undefined])
        expect(delayOf({ ...busy, retryAfterMs }, failuresBefore, bounds, chance)).toBe(backoff)
    })
  })

  it("fails with its code when the budget is spent: by default the third failure is the last", () => {
    const next = [0, 1, 2, 3].map((n) => afterFailure(busy, n, defaultAttemptLimits, 0.5).next)
    expect(next).toEqual(["defer", "defer", "fail", "fail"])
    always((bounds, failuresBefore, chance) => {
      const last = bounds.maxFailures - 1
      const after = (failures: number) => afterFailure({ ...busy, retryAfterMs: 5 }, failures, bounds, chance)
      for (const failures of [last, last + failuresBefore])
        expect(after(failures)).toEqual({ next: "fail", errorCode: "provider_unavailable" })
      for (let failures = 0; failures < last; failures++) expect(after(failures).next).toBe("defer")
    })
  })

  it("fails immediately if another attempt would not help, whatever the provider asks", () => {
    always((bounds, failuresBefore, chance) => {
      const failure: FailureReason = { errorCode: "content_rejected", retry: false, retryAfterMs: 1_000 }
      expect(afterFailure(failure, failuresBefore, bounds, chance)).toEqual({
        next: "fail",
        errorCode: "content_rejected",
      })
    })
  })
})
