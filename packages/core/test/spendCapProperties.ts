import fc from "fast-check"
import { expect } from "vitest"
import { chargeFor, Decimal, type Spending, type SpendOwner } from "@kiln/core/domain"
import type { SpendEntry } from "@kiln/core/rules"
import type * as SpendCaps from "../src/domain/SpendCap.ts"

/** The module under examination. */
export type SpendCapRules = typeof SpendCaps

const DAY = 86_400_000
/** 1 January 2026, 00:00 UTC. */
const BEGIN = Date.UTC(2026, 0, 1)

/** Amounts in thousandths, so that the test adds them up without the code under examination. */
const amount = (thousandths: number): string => Decimal.format(Decimal.parse((thousandths / 1_000).toFixed(3)))

const owners = ["key_a", "prj_a"] as const satisfies ReadonlyArray<SpendOwner>

type Event =
  | { readonly event: "submit"; readonly most: number; readonly withKey: boolean }
  | { readonly event: "end"; readonly which: number; readonly share: number }
  | { readonly event: "fail"; readonly which: number }
  | { readonly event: "wait"; readonly ms: number }

const events: fc.Arbitrary<Event> = fc.oneof(
  fc.record({ event: fc.constant("submit" as const), most: fc.nat(400), withKey: fc.boolean() }),
  fc.record({ event: fc.constant("submit" as const), most: fc.nat(400), withKey: fc.boolean() }),
  fc.record({ event: fc.constant("end" as const), which: fc.nat(9), share: fc.constantFrom(0, 0.5, 1, 1) }),
  fc.record({ event: fc.constant("fail" as const), which: fc.nat(9) }),
  fc.record({
    event: fc.constant("wait" as const),
    ms: fc.constantFrom(1, DAY / 2, DAY - 1, DAY, 3 * DAY, 27 * DAY),
  }),
)

const capAmount = fc.option(fc.integer({ min: 0, max: 900 }), { freq: 4 })

interface KnownJob {
  readonly most: number
  readonly owners: ReadonlyArray<SpendOwner>
  charged: number | null
  at: number | null
}

/** What counts in the period that contains a time, in thousandths. */
const counted = (jobs: ReadonlyArray<KnownJob>, owner: SpendOwner, sameAs: (at: number) => boolean): number =>
  jobs
    .filter((job) => job.owners.includes(owner))
    .reduce((sum, job) => sum + (job.at === null ? job.most : sameAs(job.at) ? (job.charged ?? 0) : 0), 0)

const isSame = (period: "day" | "month", now: number) => {
  const length = period === "day" ? 10 : 7
  const prefix = new Date(now).toISOString().slice(0, length)
  return (at: number) => new Date(at).toISOString().startsWith(prefix)
}

type Caps = ReadonlyArray<readonly [SpendOwner, { readonly day: number | null; readonly month: number | null }]>

const entriesOf = (jobs: ReadonlyArray<KnownJob>, owner: SpendOwner): ReadonlyArray<SpendEntry> =>
  jobs
    .filter((job) => job.owners.includes(owner))
    .map((job) => ({
      currency: "usd",
      amount: amount(job.at === null ? job.most : (job.charged ?? 0)),
      chargedAt: job.at,
    }))

const spendingIn = (
  rules: SpendCapRules,
  caps: Caps,
  jobs: ReadonlyArray<KnownJob>,
  now: number,
): ReadonlyArray<Spending> =>
  caps.map(([owner, cap]) => {
    const amounts = {
      day: cap.day === null ? null : amount(cap.day),
      month: cap.month === null ? null : amount(cap.month),
    }
    return rules.spendingOf(owner, { currency: "usd", ...amounts }, entriesOf(jobs, owner), now)
  })

/** Plays a history. `check` sees each submission with the verdict on it. */
const play = (
  rules: SpendCapRules,
  caps: Caps,
  history: ReadonlyArray<Event>,
  check: (
    jobs: ReadonlyArray<KnownJob>,
    now: number,
    submitted?: { readonly most: number; readonly refused: boolean; readonly of: ReadonlyArray<SpendOwner> },
  ) => void,
): void => {
  const jobs: Array<KnownJob> = []
  let now = BEGIN
  for (const step of history) {
    const unfinished = jobs.filter((job) => job.at === null)
    if (step.event === "wait") now += step.ms
    else if (step.event === "submit") {
      const of = step.withKey ? owners : owners.slice(1)
      const under = caps.filter(([owner]) => of.includes(owner as "prj_a"))
      const spending = spendingIn(rules, under, jobs, now)
      const refused =
        rules.spendRefusal({ currency: "usd", maximumCost: amount(step.most) }, spending, now) !== undefined
      check(jobs, now, { most: step.most, refused, of })
      if (!refused) jobs.push({ most: step.most, owners: of, charged: null, at: null })
    } else {
      const job = unfinished[step.which % Math.max(1, unfinished.length)]
      if (job === undefined) continue
      job.at = now
      job.charged = step.event === "fail" ? 0 : Math.floor(job.most * step.share)
    }
    check(jobs, now)
  }
}

const capsArbitrary: fc.Arbitrary<Caps> = fc.tuple(
  fc.record({ day: capAmount, month: capAmount }).map((cap) => ["key_a", cap] as const),
  fc.record({ day: capAmount, month: capAmount }).map((cap) => ["prj_a", cap] as const),
)

const histories = fc.array(events, { maxLength: 40, size: "max" })

/** What holds for spend caps. Each throws where it does not hold. */
export const spendCapProperties: Readonly<Record<string, (rules: SpendCapRules) => void>> = {
  "charges and reservations never pass a cap, in any history": (rules) =>
    fc.assert(
      fc.property(capsArbitrary, histories, (caps, history) => {
        play(rules, caps, history, (jobs, now) => {
          for (const [owner, cap] of caps)
            for (const period of ["day", "month"] as const)
              expect(counted(jobs, owner, isSame(period, now))).toBeLessThanOrEqual(cap[period] ?? Infinity)
        })
      }),
      { numRuns: 500 },
    ),

  "a job is refused only if it could pass a cap": (rules) =>
    fc.assert(
      fc.property(capsArbitrary, histories, (caps, history) => {
        play(rules, caps, history, (jobs, now, submitted) => {
          if (submitted === undefined) return
          const { most, of, refused } = submitted
          const passes = caps
            .filter(([owner]) => of.includes(owner))
            .some(([owner, cap]) =>
              (["day", "month"] as const).some(
                (period) => counted(jobs, owner, isSame(period, now)) + most > (cap[period] ?? Infinity),
              ),
            )
          expect(refused).toBe(passes && most > 0)
        })
      }),
      { numRuns: 500 },
    ),

  "sums by day count as the charges they replace, in this month and at any later time": (rules) =>
    fc.assert(
      fc.property(
        fc.array(fc.record({ at: fc.nat(200 * DAY), thousandths: fc.nat(500), euros: fc.boolean() }), {
          maxLength: 40,
        }),
        fc.nat(40 * DAY),
        (charges, laterMs) => {
          const entries = charges.map(({ at, euros, thousandths }) => ({
            currency: euros ? "eur" : "usd",
            amount: amount(thousandths),
            chargedAt: BEGIN + at,
          }))
          const now = Math.max(BEGIN, ...entries.map(({ chargedAt }) => chargedAt))
          const sums = rules.dailySums(entries, now)
          for (const currency of ["usd", "eur"])
            for (const time of [now, now + laterMs]) {
              const cap = { currency, day: "1", month: "1" }
              expect(rules.spendingOf("prj_a", cap, sums, time)).toEqual(rules.spendingOf("prj_a", cap, entries, time))
            }
        },
      ),
      { numRuns: 500 },
    ),

  "no charge passes the maximum cost, which is unknown if a meter with a price is": (rules) =>
    fc.assert(
      fc.property(
        fc.dictionary(fc.constantFrom("a", "b", "c"), fc.constantFrom("0", "0.003", "1.5"), { noNullPrototype: true }),
        fc.option(fc.dictionary(fc.constantFrom("a", "b", "c"), fc.nat(20), { noNullPrototype: true })),
        fc.dictionary(fc.constantFrom("a", "b", "c"), fc.nat(40), { noNullPrototype: true }),
        (unitAmounts, maxUsage, usage) => {
          const price = { name: "p", version: 1, currency: "usd", unitAmounts }
          const meters = Object.keys(unitAmounts)
          const most = rules.maximumCost(price, meters, maxUsage)
          const isKnown = meters.every((meter) => unitAmounts[meter] === "0" || maxUsage?.[meter] !== undefined)
          expect(most !== undefined).toBe(isKnown)
          if (most === undefined) return
          const charge = chargeFor(price, rules.withinMaximum(usage, maxUsage))
          expect(Decimal.compare(Decimal.parse(charge.amount), Decimal.parse(most))).toBeLessThanOrEqual(0)
          expect(chargeFor(price, maxUsage ?? {}).amount).toBe(most)
        },
      ),
      { numRuns: 1_000 },
    ),

  "a charge is cut to its reservation, and only then": (rules) =>
    fc.assert(
      fc.property(
        fc.dictionary(fc.constantFrom("a", "b", "c"), fc.constantFrom("0", "0.003", "1.5"), { noNullPrototype: true }),
        fc.dictionary(fc.constantFrom("a", "b", "c"), fc.nat(40), { noNullPrototype: true }),
        fc.nat(90_000),
        (unitAmounts, usage, thousandths) => {
          const charge = chargeFor({ name: "p", version: 1, currency: "usd", unitAmounts }, usage)
          const reserved = { currency: "usd", amount: amount(thousandths) }
          const cut = rules.withinReservation(charge, reserved)
          const isAbove = (one: string, other: string) => Decimal.compare(Decimal.parse(one), Decimal.parse(other)) > 0
          expect(isAbove(cut.amount, reserved.amount)).toBe(false)
          if (!isAbove(charge.amount, reserved.amount)) expect(cut).toEqual(charge)
          const quantities = Object.fromEntries(cut.lineItems.map(({ meter, quantity }) => [meter, quantity]))
          expect(cut).toEqual(chargeFor({ name: "p", version: 1, currency: "usd", unitAmounts }, quantities))
          expect(cut.lineItems.every(({ meter, quantity }) => quantity <= (usage[meter] ?? 0))).toBe(true)
          expect(rules.withinReservation(charge, undefined)).toBe(charge)
        },
      ),
      { numRuns: 500 },
    ),

  "a refusal names the end of its period, in UTC": (rules) =>
    fc.assert(
      fc.property(fc.nat(800 * DAY), fc.constantFrom("day" as const, "month" as const), (ms, period) => {
        const now = BEGIN + ms
        const cap = { currency: "usd", day: null, month: null, [period]: "1" }
        const spending = { owner: "prj_a" as const, cap, reserved: "0.5", day: "0.5", month: "0.5" }
        const at = rules.spendRefusal({ currency: "usd", maximumCost: "0.1" }, [spending], now)?.resetsAt ?? 0
        expect(isSame(period, now)(at - 1)).toBe(true)
        expect(isSame(period, now)(at)).toBe(false)
        expect(rules.spendRefusal({ currency: "usd", maximumCost: "1.1" }, [spending], now)?.resetsAt).toBe(null)
      }),
      { numRuns: 500 },
    ),

  "a job that cannot cost anything is never refused": (rules) =>
    fc.assert(
      fc.property(fc.constantFrom("usd", "eur"), fc.constantFrom("0", "0.5", "2"), (currency, spent) => {
        const cap = { currency: "usd", day: "1", month: null }
        const spending = { owner: "prj_a" as const, cap, reserved: "0", day: spent, month: spent }
        expect(rules.spendRefusal({ currency, maximumCost: "0" }, [spending], BEGIN)).toBe(undefined)
      }),
    ),
}
