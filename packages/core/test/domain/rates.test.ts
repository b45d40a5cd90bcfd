import { describe, expect, it } from "vitest"
import { policyOfRate, rateProblem } from "../../src/domain/Rate.ts"
import { fullAt, keyLimitsProblem, takePortion, TOKEN } from "../../src/domain/RateLimit.ts"

const rate = { limit: 10, perMs: 1_000 }
const year = 366 * 86_400_000

describe("a rate", () => {
  const shape = "must be an object { limit, perMs, burst }"
  const limit = "needs a limit that is an integer from 1 to 1000000"
  const period = "needs a perMs from 1 to a year, in milliseconds"
  const burst = "needs a burst that is an integer from 1 to 1000000"
  it.each([
    [rate, undefined],
    [{ limit: 1, perMs: 1, burst: 1 }, undefined],
    [{ limit: 1_000_000, perMs: year, burst: 1_000_000 }, undefined],
    [{ ...rate, perMs: 1.5 }, undefined],
    [undefined, shape],
    [null, shape],
    [5, shape],
    [[], shape],
    [{ perMs: 1_000 }, limit],
    [{ ...rate, limit: 0 }, limit],
    [{ ...rate, limit: 1.5 }, limit],
    [{ ...rate, limit: 1_000_001 }, limit],
    [{ limit: 1 }, period],
    [{ ...rate, perMs: 0.5 }, period],
    [{ ...rate, perMs: year + 1 }, period],
    [{ ...rate, perMs: "1000" }, period],
    [{ ...rate, perMs: NaN }, period],
    [{ ...rate, burst: 0 }, burst],
    [{ ...rate, burst: 1_000_001 }, burst],
    [{ ...rate, burst: null }, burst],
  ])("%j is valid, or the problem is named", (given, problem) => expect(rateProblem(given)).toBe(problem))

  it.each([
    [{ limit: 1, perMs: 60_000, brust: 1 }, 'field "brust"', 'did you mean "burst"'],
    [{ limt: 1, perMs: 60_000 }, 'field "limt"', 'did you mean "limit"'],
    [{ limit: 1, perM: 60_000 }, 'field "perM"', 'did you mean "perMs"'],
  ])("%j has an unknown field", (given, field, suggestion) => {
    expect(rateProblem(given)).toContain(field)
    expect(rateProblem(given)).toContain(suggestion)
  })

  it.each([
    [
      { limit: 1, perMs: 60_000 },
      { perMinute: 1, burst: 2 },
    ],
    [
      { limit: 21, perMs: 30_000 },
      { perMinute: 42, burst: 3 },
    ],
    [
      { limit: 100, perMs: 1_000, burst: 1 },
      { perMinute: 6_000, burst: 1 },
    ],
  ])("%j is the bucket %j", (given, policy) => expect(policyOfRate(given)).toEqual(policy))
})

describe("the limits of a key", () => {
  const perMinute = "limit read: the requests per minute must be an integer from 0 (off) to 1000000"
  const burst = "limit read: the burst must be an integer from 1 to 1000000"
  it.each([
    [{ perMinute: 1, burst: 1 }, undefined],
    [{ perMinute: 1_000_000, burst: 1_000_000 }, undefined],
    [{ perMinute: -1, burst: 1 }, perMinute],
    [{ perMinute: 0.5, burst: 1 }, perMinute],
    [{ perMinute: 1_000_001, burst: 1 }, perMinute],
    [{ perMinute: "1" as never, burst: 1 }, perMinute],
    [{ perMinute: 1, burst: 0 }, burst],
    [{ perMinute: 0, burst: -1 }, burst],
    [{ perMinute: 1, burst: 1_000_001 }, burst],
  ])("%j", (read, problem) => expect(keyLimitsProblem({ read })).toBe(problem))

  it("name the one that is unknown", () => {
    expect(keyLimitsProblem({ reed: { perMinute: 1, burst: 1 } } as never)).toContain('limit "reed"')
  })

  it.each([null, 5])("cannot be %j", (limits) =>
    expect(keyLimitsProblem(limits as never)).toBe("limits must be an object"),
  )
})

describe("a shared bucket", () => {
  const policy = { perMinute: 60, burst: 4 }
  const bucket = { level: TOKEN, at: 1_000, portions: {} }
  it.each([
    // 3 tokens at one a second.
    [bucket, policy, 4_000],
    [{ ...bucket, level: 4 * TOKEN }, policy, 1_000],
    [{ ...bucket, level: 9 * TOKEN }, policy, 1_000],
    // Refills from the end of the last portion.
    [{ ...bucket, portions: { a: { tokens: 1, until: 6_000 }, b: { tokens: 1, until: 5_000 } } }, policy, 9_000],
    [{ ...bucket, level: 0 }, { perMinute: 0, burst: 1 }, 1_000 + TOKEN],
    [{ ...bucket, level: TOKEN - 1 }, { perMinute: 2, burst: 1 }, 1_001],
  ])("%j is full again under %j at %i", (given, under, at) => expect(fullAt(given, under)).toBe(at))
})

describe("a portion of a shared bucket", () => {
  const policy = { perMinute: 60, burst: 10 }
  const request = { policy, process: "a", unused: 0, wanted: 10, ttlMs: 5_000 }
  const empty = { level: 0, at: 0, portions: {} }

  it("is at most half of the tokens, rounded up, and names the end of its time", () => {
    expect(takePortion(undefined, request, 7)).toEqual({
      bucket: { level: 5 * TOKEN, at: 7, portions: { a: { tokens: 5, until: 5_007 } } },
      taken: { tokens: 5, level: 5 * TOKEN },
    })
  })

  it("is not kept if it is empty", () => {
    expect(takePortion(empty, request, 0).bucket.portions).toEqual({})
  })

  it("counts as used from its end on, to the millisecond, and portions end in their order", () => {
    const portions = { late: { tokens: 6, until: 9_000 }, early: { tokens: 4, until: 1_000 } }
    const at = (now: number) => {
      const { bucket } = takePortion({ ...empty, portions }, { ...request, wanted: 0 }, now)
      return [bucket.level / TOKEN, Object.keys(bucket.portions).toSorted()]
    }
    expect(at(999)).toEqual([0, ["early", "late"]])
    expect(at(1_000)).toEqual([0, ["late"]])
    expect(at(3_000)).toEqual([2, ["late"]])
    expect(at(9_000)).toEqual([4, []])
    expect(at(10_000)).toEqual([5, []])
  })

  it("is no larger than a policy that became smaller allows beside the portions of others", () => {
    const bucket = { level: 8 * TOKEN, at: 0, portions: { b: { tokens: 2, until: 9_000 } } }
    const smaller = { ...request, policy: { perMinute: 60, burst: 4 } }
    expect(takePortion(bucket, smaller, 0).taken).toEqual({ tokens: 1, level: TOKEN })
    const returned = { level: 0, at: 0, portions: { ...bucket.portions, a: { tokens: 3, until: 9_000 } } }
    expect(takePortion(returned, { ...smaller, unused: 3 }, 0).taken).toEqual({ tokens: 1, level: TOKEN })
  })
})
