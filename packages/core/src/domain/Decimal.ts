/**
 * Exact non-negative decimals for money, so that no float stands between a price and a charge. Import it as a namespace:
 * `Decimal.add(a, b)`.
 *
 * `effect/BigDecimal` is exact as well, but does not fit here: it parses signs, exponents and the empty string, and it formats
 * large and small amounts with an exponent (`1e-17`, `1e+20`).
 */

/**
 * `coefficient × 10^-scale`, in lowest terms: no trailing zero in the coefficient while the scale is above 0, so equal
 * amounts are structurally equal.
 */
export interface Decimal {
  readonly coefficient: bigint
  /** Digits after the decimal point, 0 or more. */
  readonly scale: number
}

export const zero: Decimal = { coefficient: 0n, scale: 0 }

/** Maximum length of a decimal's text, in characters. */
export const MAX_LENGTH = 100

// No sign, no exponent, no leading zeros, digits on both sides of the point.
const DECIMAL = /^(0|[1-9][0-9]*)(?:\.([0-9]+))?$/

const reduce = (coefficient: bigint, scale: number): Decimal => {
  let digits = coefficient
  let places = scale
  for (; places > 0 && digits % 10n === 0n; places--) digits /= 10n
  return { coefficient: digits, scale: places }
}

/**
 * Parses a plain decimal (`0`, `12`, `0.0123`, `1.50`); returns `undefined` for anything else, and for more than `MAX_LENGTH`
 * characters.
 */
export const tryParse = (text: string): Decimal | undefined => {
  const match = text.length > MAX_LENGTH ? null : DECIMAL.exec(text)
  if (match === null) return undefined
  const [, whole = "", fraction = ""] = match
  return reduce(BigInt(whole + fraction), fraction.length)
}

/**
 * Parses a decimal that was validated before it was stored.
 *
 * @throws RangeError if it is not a plain decimal.
 */
export const parse = (text: string): Decimal => {
  const decimal = tryParse(text)
  if (decimal === undefined) throw new RangeError("expected a plain non-negative decimal, such as 0.0123")
  return decimal
}

/** Formats an amount canonically: `0`, `12`, `0.0123`; no trailing zeros, no exponent. */
export const format = ({ coefficient, scale }: Decimal): string => {
  if (scale === 0) return coefficient.toString()
  const digits = coefficient.toString().padStart(scale + 1, "0")
  return `${digits.slice(0, -scale)}.${digits.slice(-scale)}`
}

const coefficientAt = (decimal: Decimal, scale: number): bigint =>
  decimal.coefficient * 10n ** BigInt(scale - decimal.scale)

export const add = (left: Decimal, right: Decimal): Decimal => {
  const scale = Math.max(left.scale, right.scale)
  return reduce(coefficientAt(left, scale) + coefficientAt(right, scale), scale)
}

/**
 * Multiplies an amount by a non-negative integer.
 *
 * @throws RangeError if `times` is negative, not an integer, or too large to be exact.
 */
export const multiply = (decimal: Decimal, times: number): Decimal => {
  if (!Number.isSafeInteger(times) || times < 0) throw new RangeError("the quantity must be a non-negative integer")
  return reduce(decimal.coefficient * BigInt(times), decimal.scale)
}

/** Compares two amounts, as for `Array.prototype.sort`. */
export const compare = (left: Decimal, right: Decimal): -1 | 0 | 1 => {
  const scale = Math.max(left.scale, right.scale)
  const [a, b] = [coefficientAt(left, scale), coefficientAt(right, scale)]
  return a < b ? -1 : a > b ? 1 : 0
}

/** Returns how many times a positive amount fits into another, rounded down. */
export const timesIn = (unit: Decimal, whole: Decimal): bigint => {
  const scale = Math.max(unit.scale, whole.scale)
  return coefficientAt(whole, scale) / coefficientAt(unit, scale)
}

/** Subtracts an amount that is not larger than the first. */
export const subtract = (left: Decimal, right: Decimal): Decimal => {
  const scale = Math.max(left.scale, right.scale)
  return reduce(coefficientAt(left, scale) - coefficientAt(right, scale), scale)
}
