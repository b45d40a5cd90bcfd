import fc from "fast-check"
import { describe, expect, it } from "vitest"
import * as Decimal from "../src/domain/Decimal.ts"

const digits = (size: { minLength: number; maxLength: number }) =>
  fc.string({ unit: fc.constantFrom(..."0123456789"), ...size })
const whole = digits({ minLength: 1, maxLength: 20 }).map((text) => text.replace(/^0+(?=.)/, ""))
const plain = fc.oneof(
  whole,
  fc.tuple(whole, digits({ minLength: 1, maxLength: 20 })).map(([w, f]) => `${w}.${f}`),
)
const decimal = plain.map(Decimal.parse)
const quantity = fc.oneof(fc.nat(1000), fc.maxSafeNat())
/** An amount in units of 10^-20, computed apart from the code under test. */
const units = (text: string): bigint => {
  const [w = "", f = ""] = text.split(".")
  return BigInt(w + f.padEnd(20, "0"))
}
const unitsOf = (value: Decimal.Decimal): bigint => units(Decimal.format(value))

describe("parse and format", () => {
  it("keeps the value and drops only trailing zeros", () => {
    fc.assert(
      fc.property(plain, (text) => {
        const formatted = Decimal.format(Decimal.parse(text))
        expect(units(formatted)).toBe(units(text))
        expect(formatted).toMatch(/^(0|[1-9][0-9]*)(\.[0-9]*[1-9])?$/)
      }),
    )
  })

  it("gives equal amounts the same text and structure", () => {
    fc.assert(
      fc.property(plain, fc.nat(5), (text, zeros) => {
        const longer = (text.includes(".") ? text : `${text}.0`) + "0".repeat(zeros)
        expect(Decimal.parse(longer)).toEqual(Decimal.parse(text))
      }),
    )
  })

  it.each([
    ["0", "0"],
    ["0.000", "0"],
    ["0.0123", "0.0123"],
    ["1.50", "1.5"],
    ["100", "100"],
    ["100.00", "100"],
    ["0.0000150", "0.000015"],
  ])("writes %s as %s", (text, canonical) => expect(Decimal.format(Decimal.parse(text))).toBe(canonical))

  it.each([
    "",
    " ",
    "-1",
    "+1",
    "-0",
    "1.",
    ".5",
    "00",
    "01",
    "1e3",
    "1E3",
    "0x10",
    "1_000",
    "1,5",
    "NaN",
    "Infinity",
    " 1",
    "1 ",
    "1\n",
    "1.2.3",
    "١",
    "1n",
    "0".repeat(2),
    `0.${"1".repeat(99)}`,
  ])("refuses %j", (text) => {
    expect(Decimal.tryParse(text)).toBeUndefined()
    expect(() => Decimal.parse(text)).toThrow(new RangeError("expected a plain non-negative decimal, such as 0.0123"))
  })

  it("refuses a long text without converting it", () => {
    expect(Decimal.tryParse("9".repeat(Decimal.MAX_LENGTH))).toBeDefined()
    expect(Decimal.tryParse("9".repeat(Decimal.MAX_LENGTH + 1))).toBeUndefined()
  })
})

describe("arithmetic", () => {
  it("adds exactly, in any order and grouping", () => {
    fc.assert(
      fc.property(decimal, decimal, decimal, (a, b, c) => {
        expect(unitsOf(Decimal.add(a, b))).toBe(unitsOf(a) + unitsOf(b))
        expect(Decimal.add(a, b)).toEqual(Decimal.add(b, a))
        expect(Decimal.add(Decimal.add(a, b), c)).toEqual(Decimal.add(a, Decimal.add(b, c)))
        expect(Decimal.add(a, Decimal.zero)).toEqual(a)
      }),
    )
  })

  it("multiplies exactly and distributes over addition", () => {
    fc.assert(
      fc.property(decimal, decimal, quantity, (a, b, n) => {
        expect(unitsOf(Decimal.multiply(a, n))).toBe(unitsOf(a) * BigInt(n))
        const apart = Decimal.add(Decimal.multiply(a, n), Decimal.multiply(b, n))
        expect(Decimal.multiply(Decimal.add(a, b), n)).toEqual(apart)
      }),
    )
  })

  it("does not drift where floats do", () => {
    const cent = Decimal.parse("0.1")
    const sum = Array.from({ length: 10 }, () => cent).reduce(Decimal.add, Decimal.zero)
    expect(Decimal.format(sum)).toBe("1")
    expect(Decimal.format(Decimal.add(Decimal.parse("0.1"), Decimal.parse("0.2")))).toBe("0.3")
    expect(Decimal.format(Decimal.multiply(Decimal.parse("0.000015"), 4096))).toBe("0.06144")
  })

  it("refuses a quantity that is not a whole number", () => {
    for (const times of [-1, 0.5, NaN, Infinity, 2 ** 53])
      expect(() => Decimal.multiply(Decimal.zero, times)).toThrow(
        new RangeError("the quantity must be a non-negative integer"),
      )
  })

  it("compares by value", () => {
    fc.assert(
      fc.property(decimal, decimal, (a, b) => {
        const [x, y] = [unitsOf(a), unitsOf(b)]
        expect(Decimal.compare(a, b)).toBe(x < y ? -1 : x > y ? 1 : 0)
        expect(Decimal.compare(a, a)).toBe(0)
        expect(Decimal.compare(a, Decimal.add(a, Decimal.parse("0.00000000000000000001")))).toBe(-1)
      }),
    )
  })
})
