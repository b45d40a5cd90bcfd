import fc from "fast-check"
import { expect } from "vitest"
import type { SharedBucket } from "@kiln/core/rules"
import type * as RateLimits from "../src/domain/RateLimit.ts"

/** The module under examination. */
export type RateLimitRules = typeof RateLimits

const BEGIN = 1_763_000_000_000
const TTL = 10_000

type Step =
  | { readonly step: "ask"; readonly process: number; readonly wanted: number }
  | { readonly step: "spend"; readonly process: number }
  | { readonly step: "return"; readonly process: number }
  | { readonly step: "die"; readonly process: number }
  | { readonly step: "wait"; readonly ms: number }

const process = fc.nat(2)
const steps: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ step: fc.constant("ask" as const), process, wanted: fc.integer({ min: 1, max: 12 }) }),
  fc.record({ step: fc.constant("spend" as const), process }),
  fc.record({ step: fc.constant("spend" as const), process }),
  fc.record({ step: fc.constant("spend" as const), process }),
  fc.record({ step: fc.constant("return" as const), process }),
  fc.record({ step: fc.constant("die" as const), process }),
  fc.record({
    step: fc.constant("wait" as const),
    ms: fc.constantFrom(1, 50, 999, 1_000, 4_000, TTL - 1, TTL - 1, TTL, 60_000),
  }),
)

const policies = fc.record({ perMinute: fc.integer({ min: 1, max: 3_000 }), burst: fc.integer({ min: 1, max: 20 }) })

/** Plays a history of three processes, and returns when each request was admitted. */
const play = (
  rules: RateLimitRules,
  policy: { readonly perMinute: number; readonly burst: number },
  history: ReadonlyArray<Step>,
): ReadonlyArray<number> => {
  const admitted: Array<number> = []
  const held = [0, 1, 2].map(() => ({ tokens: 0, until: 0 }))
  let bucket: SharedBucket | undefined
  let now = BEGIN
  for (const step of history) {
    if (step.step === "wait") {
      now += step.ms
      continue
    }
    const mine = held[step.process]
    if (mine === undefined) continue
    if (step.step === "die") mine.tokens = 0
    else if (step.step === "spend") {
      if (mine.tokens === 0 || now >= mine.until) continue
      mine.tokens -= 1
      admitted.push(now)
    } else {
      const wanted = step.step === "ask" ? step.wanted : 0
      const request = { policy, process: String(step.process), unused: mine.tokens, wanted, ttlMs: TTL }
      const answer = rules.takePortion(bucket, request, now)
      bucket = rules.fullAt(answer.bucket, policy) < now ? undefined : answer.bucket
      mine.tokens = answer.taken.tokens
      mine.until = now + TTL
    }
  }
  return admitted
}

/** Whether more requests were admitted in any window than a single bucket would admit. */
const isOver = (
  policy: { readonly perMinute: number; readonly burst: number },
  admitted: ReadonlyArray<number>,
): boolean =>
  admitted.some((since, first) =>
    admitted
      .slice(first)
      .some((until, n) => (n + 1) * 60_000 > policy.burst * 60_000 + (until - since) * policy.perMinute),
  )

/** What holds for portions of a bucket. Each throws where it does not hold. */
export const rateLimitProperties: Readonly<Record<string, (rules: RateLimitRules) => void>> = {
  "three processes together admit no more than one bucket, in any window": (rules) =>
    fc.assert(
      fc.property(policies, fc.array(steps, { minLength: 20, maxLength: 120, size: "max" }), (policy, history) => {
        expect(isOver(policy, play(rules, policy, history))).toBe(false)
      }),
      { numRuns: 10_000 },
    ),

  "a portion that is used at its very end leaves no room for others before": (rules) =>
    fc.assert(
      fc.property(policies, fc.integer({ min: 1, max: 10 }), fc.constantFrom(0, 1, 20), (policy, wanted, ms) => {
        const spendAll = (process: number): ReadonlyArray<Step> =>
          Array.from({ length: 20 }, () => ({ step: "spend", process }))
        const takeAll = Array.from({ length: 8 }, (): ReadonlyArray<Step> => [
          { step: "ask", process: 1, wanted: 20 },
          ...spendAll(1),
        ])
        const late: ReadonlyArray<Step> = [
          { step: "ask", process: 0, wanted },
          { step: "wait", ms: TTL - 1 },
          ...spendAll(0),
          { step: "wait", ms: 1 + ms },
          ...takeAll.flat(),
        ]
        expect(isOver(policy, play(rules, policy, late))).toBe(false)
      }),
    ),

  "a process alone gets the whole burst, and then the rate, to the millisecond": (rules) =>
    fc.assert(
      fc.property(policies, (policy) => {
        let bucket: SharedBucket | undefined
        const take = (now: number) => {
          const request = { policy, process: "p", unused: 0, wanted: 1, ttlMs: TTL }
          const answer = rules.takePortion(bucket, request, now)
          bucket = answer.bucket
          return answer.taken.tokens
        }
        for (let n = 0; n < policy.burst; n++) expect(take(BEGIN)).toBe(1)
        expect(take(BEGIN)).toBe(0)
        const needMs = Math.ceil(60_000 / policy.perMinute)
        expect(take(BEGIN + needMs - 1)).toBe(0)
        expect(take(BEGIN + needMs)).toBe(1)
        expect(take(BEGIN + 3_600_000)).toBe(1)
      }),
    ),

  "what a process returns, or held when it died, others get": (rules) =>
    fc.assert(
      fc.property(policies, fc.boolean(), (policy, returns) => {
        const all = (bucket: SharedBucket | undefined, process: string, now: number) => {
          let [sum, next] = [0, bucket]
          while (true) {
            const answer = rules.takePortion(next, { policy, process, unused: 0, wanted: 100, ttlMs: TTL }, now)
            next = answer.bucket
            if (answer.taken.tokens === 0) return sum
            sum += answer.taken.tokens
          }
        }
        const first = rules.takePortion(undefined, { policy, process: "a", unused: 0, wanted: 100, ttlMs: TTL }, BEGIN)
        const { tokens } = first.taken
        expect(tokens).toBeGreaterThan(0)
        expect(all(first.bucket, "b", BEGIN)).toBe(policy.burst - tokens)
        if (returns) {
          const returned = rules.takePortion(
            first.bucket,
            { policy, process: "a", unused: tokens, wanted: 0, ttlMs: TTL },
            BEGIN,
          )
          expect(all(returned.bucket, "b", BEGIN)).toBe(policy.burst)
        } else expect(all(first.bucket, "b", BEGIN + 60_000 * (policy.burst + 1) + TTL)).toBe(policy.burst)
      }),
    ),

  "a row that may go is as good as none": (rules) =>
    fc.assert(
      fc.property(policies, fc.nat(20), fc.nat(20), (policy, wanted, unused) => {
        const { bucket } = rules.takePortion(undefined, { policy, process: "a", unused: 0, wanted, ttlMs: TTL }, BEGIN)
        const full = rules.fullAt(bucket, policy) + 1
        const request = { policy, process: "b", unused, wanted: 5, ttlMs: TTL }
        expect(rules.takePortion(bucket, request, full).taken).toEqual(
          rules.takePortion(undefined, request, full).taken,
        )
      }),
    ),
}
