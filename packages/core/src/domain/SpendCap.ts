import { type Charge, chargeFor, type Meter, type PriceSnapshot, type Usage } from "./Billing.ts"
import * as Decimal from "./Decimal.ts"
import type { KeyId, ProjectId } from "./Ids.ts"
import { valueOf } from "./givenValues.ts"

/** A calendar period of UTC, by store time. */
export const spendPeriods = ["day", "month"] as const
export type SpendPeriod = (typeof spendPeriods)[number]

/** The maximum cost of live jobs in a calendar day and in a calendar month of UTC. Amounts are exact decimals. */
export interface SpendCap {
  /** Lower-case ISO 4217. Jobs whose price has another currency are refused. */
  readonly currency: string
  /** `null` for no cap. */
  readonly day: string | null
  /** `null` for no cap. */
  readonly month: string | null
}

/** The project or the key that a cap belongs to. */
export type SpendOwner = ProjectId | KeyId

/** An amount that counts against a cap. */
export interface SpendEntry {
  readonly currency: string
  readonly amount: string
  /** Unix milliseconds of store time; `null` while an unfinished job reserves the amount. */
  readonly chargedAt: number | null
}

/** The spending of an owner under its cap, in the cap's currency. */
export interface Spending {
  readonly owner: SpendOwner
  readonly cap: SpendCap
  /** The sum of what unfinished jobs may cost at most. */
  readonly reserved: string
  /** Charges of the current day. */
  readonly day: string
  /** Charges of the current month. */
  readonly month: string
}

/** Why a job is refused under a cap. */
export interface SpendRefusal {
  /**
   * - `cap`: the job could pass the cap
   * - `unbounded`: the kind does not state how much a job may use at most
   * - `currency`: the job's price has another currency than the cap
   */
  readonly reason: "cap" | "unbounded" | "currency"
  readonly owner: "key" | "project"
  /** The currency of the job's price. */
  readonly currency: string
  /** The job's maximum cost; `null` if it is not bounded. */
  readonly maximumCost: string | null
  /** The period whose cap the job could pass; `null` for the other reasons. */
  readonly period: SpendPeriod | null
  /** When the period ends, in Unix milliseconds; `null` if the job does not fit into an empty period either. */
  readonly resetsAt: number | null
}

/** Returns why a job is refused, as a sentence without its end. */
export const spendRefusalReason = ({ currency, maximumCost, owner, period, reason }: SpendRefusal): string => {
  const priced = currency.toUpperCase()
  switch (reason) {
    case "cap":
      return `the job could cost up to ${maximumCost ?? ""} ${priced}, which passes the ${owner}'s spend cap for this ${period ?? "period"}`
    case "currency":
      return `the job is priced in ${priced}, but the ${owner}'s spend cap is in another currency`
    case "unbounded":
      return `the ${owner} has a spend cap, and the job's kind does not state its maximum usage (maxUsage)`
  }
}

/** Returns what is wrong with a cap to be set, or `undefined` if it is valid. */
export const spendCapProblem = ({ currency, day, month }: SpendCap): string | undefined => {
  if (typeof currency !== "string" || !/^[a-z]{3}$/.test(currency))
    return "its currency must be a lower-case ISO 4217 code like usd"
  if (day === null && month === null) return "it needs an amount for a day or for a month"
  const wrong = [day, month].find(
    (amount) => amount !== null && (typeof amount !== "string" || Decimal.tryParse(amount) === undefined),
  )
  return wrong === undefined ? undefined : "its amounts must be plain decimals like 25 or 0.50"
}

/** Returns the beginning of the period that contains a time, in Unix milliseconds. */
export const startOfPeriod = (period: SpendPeriod, now: number): number => {
  const date = new Date(now)
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), period === "day" ? date.getUTCDate() : 1)
}

/** Returns the end of the period that contains a time, exclusive, in Unix milliseconds. */
const endOfPeriod = (period: SpendPeriod, now: number): number => {
  const date = new Date(now)
  const [year, month] = [date.getUTCFullYear(), date.getUTCMonth()]
  return period === "day" ? Date.UTC(year, month, date.getUTCDate() + 1) : Date.UTC(year, month + 1, 1)
}

const sumOf = (entries: ReadonlyArray<SpendEntry>): Decimal.Decimal =>
  entries.reduce((sum, { amount }) => Decimal.add(sum, Decimal.parse(amount)), Decimal.zero)

/** Adds up what counts against a cap. Entries in other currencies are left out. */
export const spendingOf = (
  owner: SpendOwner,
  cap: SpendCap,
  entries: ReadonlyArray<SpendEntry>,
  now: number,
): Spending => {
  const counted = entries.filter(({ currency }) => currency === cap.currency)
  const chargedIn = (period: SpendPeriod) => {
    const start = startOfPeriod(period, now)
    return Decimal.format(sumOf(counted.filter(({ chargedAt }) => chargedAt !== null && chargedAt >= start)))
  }
  return {
    owner,
    cap: { currency: cap.currency, day: cap.day, month: cap.month },
    reserved: Decimal.format(sumOf(counted.filter(({ chargedAt }) => chargedAt === null))),
    day: chargedIn("day"),
    month: chargedIn("month"),
  }
}

/**
 * Adds up charged entries by day and currency, so that a store can keep the sums instead. Entries before the previous month are left
 * out: they count in no period any more, even if the clock is set back a little.
 */
export const dailySums = (
  entries: ReadonlyArray<SpendEntry>,
  now: number,
): ReadonlyArray<SpendEntry & { readonly chargedAt: number }> => {
  const since = startOfPeriod("month", startOfPeriod("month", now) - 1)
  const days = Map.groupBy(
    entries.filter(({ chargedAt }) => chargedAt !== null && chargedAt >= since),
    ({ chargedAt, currency }) => `${startOfPeriod("day", chargedAt ?? 0)} ${currency}`,
  )
  return [...days.values()].flatMap((ofDay) => {
    const [first] = ofDay
    if (first === undefined) return []
    const chargedAt = startOfPeriod("day", first.chargedAt ?? 0)
    return [{ currency: first.currency, amount: Decimal.format(sumOf(ofDay)), chargedAt }]
  })
}

/**
 * Adds up what unfinished jobs reserve, by currency: each amount as often as it was reserved. A negative count takes off what is free again.
 * Currencies of which nothing is left are left out.
 */
export const reservedSums = (
  amounts: ReadonlyArray<{ readonly currency: string; readonly amount: string; readonly count: number }>,
): ReadonlyArray<SpendEntry> => {
  const sumOfCounts = (of: typeof amounts, sign: 1 | -1) =>
    of
      .filter(({ count }) => Math.sign(count) === sign)
      .reduce(
        (sum, { amount, count }) => Decimal.add(sum, Decimal.multiply(Decimal.parse(amount), Math.abs(count))),
        Decimal.zero,
      )
  return [...Map.groupBy(amounts, ({ currency }) => currency)].flatMap(([currency, of]) => {
    const left = Decimal.subtract(sumOfCounts(of, 1), sumOfCounts(of, -1))
    return left.coefficient <= 0n ? [] : [{ currency, amount: Decimal.format(left), chargedAt: null }]
  })
}

/** Returns the spending with one more reservation. */
export const withReservation = (spending: Spending, amount: string): Spending => ({
  ...spending,
  reserved: Decimal.format(Decimal.add(Decimal.parse(spending.reserved), Decimal.parse(amount))),
})

/** Returns the spending without this reservation. */
export const withoutReservation = (spending: Spending, amount: string): Spending => ({
  ...spending,
  reserved: Decimal.format(Decimal.subtract(Decimal.parse(spending.reserved), Decimal.parse(amount))),
})

/**
 * Returns what a job costs at most at a price, as an exact decimal. Returns `undefined` if the maximum of a meter that costs
 * something is unknown.
 */
export const maximumCost = (
  price: PriceSnapshot,
  meters: ReadonlyArray<Meter>,
  maxUsage: Usage | null,
): string | undefined => {
  const costs = (meter: Meter) =>
    Decimal.compare(Decimal.parse(valueOf(price.unitAmounts, meter) ?? "0"), Decimal.zero) !== 0
  const known = maxUsage ?? {}
  if (meters.some((meter) => costs(meter) && !Object.hasOwn(known, meter))) return undefined
  return chargeFor(price, known).amount
}

/** Returns a usage that is nowhere above its maximum, so that no job is charged more than was reserved for it. */
export const withinMaximum = (usage: Usage, maxUsage: Usage | null): Usage =>
  maxUsage === null
    ? usage
    : Object.fromEntries(
        Object.entries(usage).map(([meter, quantity]) => [
          meter,
          Math.min(quantity, valueOf(maxUsage, meter) ?? quantity),
        ]),
      )

/**
 * Returns a charge that is not above what was reserved for its job when it was accepted: quantities are cut, in the order of the line
 * items, to what the reservation pays for. The process that completes a job may have another version of the kind than the one that
 * accepted it, with another maximum usage or none. Without a reservation, nothing is cut.
 */
export const withinReservation = (
  charge: Charge,
  reserved: { readonly currency: string; readonly amount: string } | undefined,
): Charge => {
  if (reserved === undefined || reserved.currency !== charge.currency) return charge
  const limit = Decimal.parse(reserved.amount)
  if (Decimal.compare(Decimal.parse(charge.amount), limit) <= 0) return charge
  let left = limit
  const lineItems = charge.lineItems.map((item) => {
    const unit = Decimal.parse(item.unitAmount)
    if (unit.coefficient === 0n) return item
    const affordable = Decimal.timesIn(unit, left)
    const quantity = affordable < BigInt(item.quantity) ? Number(affordable) : item.quantity
    const amount = Decimal.multiply(unit, quantity)
    left = Decimal.subtract(left, amount)
    return { ...item, quantity, amount: Decimal.format(amount) }
  })
  return { ...charge, lineItems, amount: Decimal.format(Decimal.subtract(limit, left)) }
}

/** A job as far as caps are concerned: its price, and what it costs at most (`undefined` if that is unknown). */
export interface PricedJob {
  readonly currency: string
  readonly maximumCost: string | undefined
}

/**
 * Decides whether a job may be accepted under the caps of its key and its project: charges of the period, reservations of
 * unfinished jobs and the maximum cost of this one must not pass any of them together. Returns the first refusal, the key's before
 * the project's and the day's before the month's. A job that cannot cost anything is never refused.
 *
 * A reservation counts in every period until its job ends, because the job may be charged in any of them.
 */
export const spendRefusal = (
  job: PricedJob,
  spending: ReadonlyArray<Spending>,
  now: number,
): SpendRefusal | undefined => {
  const most = job.maximumCost === undefined ? undefined : Decimal.parse(job.maximumCost)
  if (most !== undefined && Decimal.compare(most, Decimal.zero) === 0) return undefined
  for (const one of inOrder(spending)) {
    const refusal = refusalUnder(one, job.currency, most, now)
    if (refusal !== undefined) return refusal
  }
  return undefined
}

/** The ids of keys sort before those of projects: `key_…`, `prj_…`. */
const inOrder = (spending: ReadonlyArray<Spending>) =>
  spending.toSorted((a, b) => (a.owner < b.owner ? -1 : a.owner > b.owner ? 1 : 0))

const refusalUnder = (
  { cap, owner: id, reserved, ...charged }: Spending,
  currency: string,
  most: Decimal.Decimal | undefined,
  now: number,
): SpendRefusal | undefined => {
  const owner = id.startsWith("key_") ? ("key" as const) : ("project" as const)
  const maximum = most === undefined ? null : Decimal.format(most)
  const refused = { owner, currency, maximumCost: maximum, period: null, resetsAt: null }
  if (most === undefined) return { ...refused, reason: "unbounded" }
  if (cap.currency !== currency) return { ...refused, reason: "currency" }
  const added = Decimal.add(Decimal.parse(reserved), most)
  for (const period of spendPeriods) {
    const amount = cap[period]
    if (amount === null) continue
    const limit = Decimal.parse(amount)
    if (Decimal.compare(Decimal.add(Decimal.parse(charged[period]), added), limit) <= 0) continue
    const fits = Decimal.compare(most, limit) <= 0
    return { ...refused, reason: "cap", period, resetsAt: fits ? endOfPeriod(period, now) : null }
  }
  return undefined
}
