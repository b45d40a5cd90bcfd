import * as Decimal from "./Decimal.ts"
import { valueOf } from "./givenValues.ts"

/**
 * The name of a quantity that is charged: one of the four built-in meters, or a meter of a custom kind. Quantities are integers.
 */
export type Meter = string

/** Prices per unit, as decimal strings, of one version of one price. */
export interface PriceSnapshot {
  /** `svc-audio` or `svc-image`. */
  readonly name: string
  readonly version: number
  /** Lower-case ISO 4217. */
  readonly currency: string
  readonly unitAmounts: Readonly<Record<Meter, string>>
}

/** Returns what is wrong with a price to be set, or `undefined` if it is valid. */
export const priceProblem = ({ currency, name, unitAmounts }: Omit<PriceSnapshot, "version">): string | undefined => {
  if (!/^[\w.-]{1,64}$/.test(name)) return "its name must be 1 to 64 letters, digits, hyphens, dots and underscores"
  if (!/^[a-z]{3}$/.test(currency)) return "its currency must be a lower-case ISO 4217 code like usd"
  const wrong = Object.entries(unitAmounts).find(
    ([, amount]) => typeof amount !== "string" || Decimal.tryParse(amount) === undefined,
  )
  return wrong && `the amount of ${wrong[0]} must be a plain decimal like 0.0001`
}

export type Usage = Readonly<Record<Meter, number>>

export interface LineItem {
  readonly meter: Meter
  readonly quantity: number
  readonly unitAmount: string
  readonly amount: string
}

/** The charge for one live job that is done. It is written exactly once, in the transaction that completes the job. */
export interface Charge {
  readonly currency: string
  readonly amount: string
  readonly lineItems: ReadonlyArray<LineItem>
}

/** The meters of the built-in kinds, in the order in which line items are listed; others follow, by name. */
export const meters = ["input_audio_seconds", "input_characters", "output_tokens", "images"] as const
/** A meter of the built-in kinds. */
export type BuiltInMeter = (typeof meters)[number]

const inOrder = (names: ReadonlyArray<Meter>): ReadonlyArray<Meter> => {
  const builtIn: ReadonlyArray<Meter> = meters
  return [...builtIn.filter((name) => names.includes(name)), ...names.filter((name) => !builtIn.includes(name)).sort()]
}

/** Returns the meters that a price does not name. */
export const uncoveredMeters = (
  { unitAmounts }: Pick<PriceSnapshot, "unitAmounts">,
  needed: ReadonlyArray<Meter>,
): ReadonlyArray<Meter> => needed.filter((meter) => !Object.hasOwn(unitAmounts, meter))

/**
 * Computes the exact sum of price × usage. Every used meter is listed. A meter that the price does not name (a job accepted by a
 * version that did not require it) is free, and its line item has the unit amount `"0"`.
 */
export const chargeFor = (price: PriceSnapshot, usage: Usage): Charge => {
  const lineItems: Array<LineItem> = []
  let total = Decimal.zero
  for (const meter of inOrder(Object.keys(usage))) {
    const quantity = usage[meter] ?? 0
    const unitAmount = valueOf(price.unitAmounts, meter) ?? "0"
    const amount = Decimal.multiply(Decimal.parse(unitAmount), quantity)
    total = Decimal.add(total, amount)
    lineItems.push({ meter, quantity, unitAmount, amount: Decimal.format(amount) })
  }
  return { currency: price.currency, amount: Decimal.format(total), lineItems }
}
