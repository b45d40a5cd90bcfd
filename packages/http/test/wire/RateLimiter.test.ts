import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { defaultRateLimits, RateLimiter, rateLimitNames } from "../../src/server/rateLimits.ts"
import { parseRateLimits } from "../../src/HttpConfig.ts"
import { rateLimitHeaders } from "../../src/server/Exchange.ts"

const policy = fc.record({ perMinute: fc.integer({ min: 1, max: 5000 }), burst: fc.integer({ min: 1, max: 50 }) })
const START = 1_763_000_000_000
/** A full bucket and what flows in, in 1/60,000 of a token. */
const flow = (policy: { readonly perMinute: number; readonly burst: number }, elapsedMs: number): bigint =>
  BigInt(policy.burst) * 60_000n + BigInt(elapsedMs) * BigInt(policy.perMinute)

describe("RateLimiter", () => {
  it("allows a burst, then the refill rate, and reports when", () => {
    const limiter = new RateLimiter({ perMinute: 60, burst: 3 })
    const take = (ms: number) => limiter.take("k", START + ms)
    expect(take(0)).toEqual({ allowed: true, limit: 60, remaining: 2, resetSeconds: 1, retryAfterSeconds: 0 })
    expect([take(0), take(0)].map((d) => d.remaining)).toEqual([1, 0])
    expect(take(1)).toEqual({ allowed: false, limit: 60, remaining: 0, resetSeconds: 1, retryAfterSeconds: 1 })
    expect(take(999).allowed).toBe(false)
    expect(take(1000).allowed).toBe(true)
    expect(take(1000).allowed).toBe(false)
    expect(take(3_600_000)).toMatchObject({ allowed: true, remaining: 2 })
  })

  it("keeps keys apart", () => {
    const limiter = new RateLimiter({ perMinute: 1, burst: 1 })
    expect(["a", "b", "a", "__proto__"].map((key) => limiter.take(key, START).allowed)).toEqual([
      true,
      true,
      false,
      true,
    ])
  })

  it("never allows more than burst plus refill in any window, and never less to a caller that waits", () => {
    const ask = fc.record({
      step: fc.oneof(fc.nat(50), fc.nat(5000), fc.constant(0), fc.nat(120_000)),
      key: fc.constantFrom("a", "b", "c"),
    })
    fc.assert(
      fc.property(policy, fc.array(ask, { minLength: 1, maxLength: 200 }), (policy, asks) => {
        const limiter = new RateLimiter(policy)
        const granted = new Map<string, Array<number>>([
          ["a", []],
          ["b", []],
          ["c", []],
        ])
        let now = START
        for (const { step, key } of asks) {
          now += step
          const decision = limiter.take(key, now)
          const grants = granted.get(key) ?? []
          if (decision.allowed) grants.push(now)
          // The bucket in exact arithmetic: all that flowed in since each grant, less the grants from then on.
          const bounds = grants.map(
            (since, index) => flow(policy, now - since) - BigInt(grants.length - index) * 60_000n,
          )
          const level = bounds.reduce((least, bound) => (bound < least ? bound : least), flow(policy, 0))
          expect(level >= 0n).toBe(true)
          expect(BigInt(decision.remaining)).toBe(level / 60_000n)
          expect(decision.allowed || level < 60_000n).toBe(true)
        }
      }),
    )
  })

  it("allows a caller that waits as requested, however many requests it sent before", () => {
    fc.assert(
      fc.property(policy, fc.nat(60_000), fc.array(fc.nat(400), { maxLength: 20 }), (policy, offset, asks) => {
        const limiter = new RateLimiter(policy)
        const now = START + offset
        let decision = limiter.take("k", now)
        while (decision.allowed) decision = limiter.take("k", now)
        expect(decision.retryAfterSeconds).toBeGreaterThanOrEqual(1)
        const due = now + decision.retryAfterSeconds * 1000
        for (const ask of asks.toSorted((a, b) => a - b)) {
          const at = now + ask
          if (at < due && limiter.take("k", at).allowed) return // it came even earlier
        }
        expect(limiter.take("k", due).allowed).toBe(true)
        expect(limiter.take("other", due).allowed).toBe(true)
      }),
    )
  })

  it("reports 0 seconds for an allowed request, and never too short a wait", () => {
    fc.assert(
      fc.property(policy, (policy) => {
        const limiter = new RateLimiter(policy)
        for (let left = policy.burst - 1; left >= 0; left--)
          expect(limiter.take("k", START)).toMatchObject({ allowed: true, remaining: left, retryAfterSeconds: 0 })
        const refused = limiter.take("k", START)
        const needMs = Math.ceil(60_000 / policy.perMinute)
        expect(refused.retryAfterSeconds).toBe(Math.ceil(needMs / 1000))
        expect(limiter.take("k", START + needMs - 1).allowed).toBe(false)
        expect(limiter.take("k", START + needMs).allowed).toBe(true)
      }),
    )
  })

  it("refills nothing when the clock goes back, and continues from there", () => {
    const limiter = new RateLimiter({ perMinute: 60, burst: 1 })
    expect(limiter.take("k", START).allowed).toBe(true)
    expect(limiter.take("k", START - 3_600_000).allowed).toBe(false)
    expect(limiter.take("k", START - 3_599_000).allowed).toBe(true)
  })

  it("is off at 0 per minute, and stores nothing", () => {
    const limiter = new RateLimiter({ perMinute: 0, burst: 0 })
    for (let i = 0; i < 100; i++) expect(limiter.take(`${i % 2}`, START).allowed).toBe(true)
    expect(limiter.size).toBe(0)
    expect(rateLimitHeaders("create", limiter.take("k", START))).toEqual({})
  })
})

describe("memory", () => {
  it("removes buckets that are full again", () => {
    const limiter = new RateLimiter({ perMinute: 60, burst: 10 })
    for (let i = 0; i < 1000; i++) limiter.take(`early${i}`, START)
    expect(limiter.size).toBe(1000)
    limiter.take("late", START + 10_000)
    limiter.take("late", START + 20_000)
    expect(limiter.size).toBe(1)
    // A new key each second, each full again one second later: two generations of 10 s are all that is ever held.
    for (let i = 0; i < 1000; i++) limiter.take(`k${i}`, START + 20_000 + i * 1000)
    expect(limiter.size).toBeLessThanOrEqual(20)
  })

  it("removes no bucket a millisecond too early, whatever the others do", () => {
    fc.assert(
      fc.property(fc.nat(9999), fc.array(fc.nat(9999)), (drainedAt, others) => {
        const limiter = new RateLimiter({ perMinute: 60, burst: 10 })
        limiter.take("other", START)
        const times = others.map((at) => START + at).toSorted((a, b) => a - b)
        const drained = START + drainedAt
        for (const at of times.filter((time) => time < drained)) limiter.take("other", at)
        for (let i = 0; i < 10; i++) limiter.take("drained", drained)
        for (const at of times) limiter.take("other", drained + at - START)
        expect(limiter.take("drained", drained + 9999)).toMatchObject({ allowed: true, remaining: 8 })
      }),
    )
  })

  it("continues to remove buckets after the clock went back", () => {
    const limiter = new RateLimiter({ perMinute: 60, burst: 10 })
    limiter.take("k", START)
    for (let i = 0; i < 1000; i++) limiter.take(`k${i}`, START - 3_600_000 + i * 1000)
    expect(limiter.size).toBeLessThanOrEqual(20)
  })

  it("below half the maximum, removes only full buckets", () => {
    const limiter = new RateLimiter({ perMinute: 1, burst: 2 }, { maxKeys: 1000 })
    for (let i = 0; i < 500; i++) limiter.take(`k${i}`, START + i)
    for (let i = 0; i < 500; i++)
      expect(limiter.take(`k${i}`, START + 1000)).toMatchObject({ allowed: true, remaining: 0 })
  })

  it("never exceeds the maximum, and evicts the least recently used", () => {
    const limiter = new RateLimiter({ perMinute: 1, burst: 1 }, { maxKeys: 100 })
    limiter.take("busy", START)
    for (let i = 0; i < 10_000; i++) {
      limiter.take(`k${i}`, START + i)
      expect(i % 49 === 0 && limiter.take("busy", START + i).allowed).toBe(false)
      expect(limiter.size).toBeLessThanOrEqual(100)
    }
    expect(limiter.take("k9999", START + 10_000).allowed).toBe(false)
    expect(limiter.take("k0", START + 10_000).allowed).toBe(true)
  })

  it("works with room for two keys", () => {
    const limiter = new RateLimiter({ perMinute: 1, burst: 1 }, { maxKeys: 2 })
    const keys = ["a", "a", "b", "a", "b", "c", "a"]
    expect(keys.map((key) => limiter.take(key, START).allowed)).toEqual([true, false, true, false, false, true, true])
    expect(limiter.size).toBe(2)
  })
})

it("rateLimitHeaders writes structured fields", () => {
  const limiter = new RateLimiter({ perMinute: 60, burst: 30 })
  expect(rateLimitHeaders("create", limiter.take("k", START))).toEqual({
    "RateLimit-Policy": '"create";q=60;w=60',
    RateLimit: '"create";r=29;t=1',
  })
})

describe("parseRateLimits", () => {
  const limits = (text: string) => {
    const parsed = parseRateLimits(text)
    if (!parsed.ok) throw new Error(parsed.problem)
    return parsed.limits
  }

  it("has the contract's defaults", () => {
    expect(limits("default")).toEqual({
      create: { perMinute: 60, burst: 30 },
      upload: { perMinute: 60, burst: 30 },
      read: { perMinute: 3000, burst: 300 },
      delete: { perMinute: 300, burst: 300 },
      authentication: { perMinute: 30, burst: 30 },
      pages: { perMinute: 60, burst: 60 },
    })
    expect(limits("{}")).toEqual(defaultRateLimits)
  })

  it("switches everything off, or one limit", () => {
    for (const name of rateLimitNames) {
      expect(new RateLimiter(limits("off")[name]).take("k", START)).toMatchObject({ allowed: true, limit: 0 })
      expect(limits(`{"${name}":{"per_minute":0}}`)).toEqual({
        ...defaultRateLimits,
        [name]: { perMinute: 0, burst: 0 },
      })
    }
    expect(limits('{"read":{"per_minute":0,"burst":5}}').read.perMinute).toBe(0)
  })

  it("applies the named limits and keeps the rest", () => {
    expect(limits(' {"create":{"per_minute":120,"burst":7},"delete":{"per_minute":9}}\n')).toEqual({
      ...defaultRateLimits,
      create: { perMinute: 120, burst: 7 },
      delete: { perMinute: 9, burst: 9 },
    })
  })

  it.each([
    ["", "must be default, off, or a JSON object of limits without duplicate keys"],
    ["on", "must be default, off, or a JSON object of limits without duplicate keys"],
    ["[]", "must be default, off, or a JSON object of limits without duplicate keys"],
    [
      '{"create":{"per_minute":1},"create":{"per_minute":2}}',
      "must be default, off, or a JSON object of limits without duplicate keys",
    ],
    [
      '{"creates":{"per_minute":1}}',
      '"creates" is not a limit; the limits are create, upload, read, delete, authentication, pages',
    ],
    [
      '{"__proto__":{"per_minute":1}}',
      '"__proto__" is not a limit; the limits are create, upload, read, delete, authentication, pages',
    ],
    ['{"create":60}', "create: must be an object"],
    ['{"create":null}', "create: must be an object"],
    ['{"create":{}}', "create: per_minute must be an integer from 0 (off) to 1000000"],
    ['{"create":{"burst":3}}', "create: per_minute must be an integer from 0 (off) to 1000000"],
    ['{"create":{"per_minute":"60"}}', "create: per_minute must be an integer from 0 (off) to 1000000"],
    ['{"create":{"per_minute":-1}}', "create: per_minute must be an integer from 0 (off) to 1000000"],
    ['{"create":{"per_minute":1.5}}', "create: per_minute must be an integer from 0 (off) to 1000000"],
    ['{"create":{"per_minute":1000001}}', "create: per_minute must be an integer from 0 (off) to 1000000"],
    ['{"create":{"per_minute":60,"burst":0}}', "create: burst must be an integer from 1 to 1000000"],
    ['{"create":{"per_minute":60,"burst":null}}', "create: burst must be an integer from 1 to 1000000"],
    ['{"create":{"per_minute":60,"burts":3}}', "create: may only contain per_minute and burst"],
  ])("refuses %s", (text, problem) => expect(parseRateLimits(text)).toEqual({ ok: false, problem }))
})
