import fc from "fast-check"
import { crc32 } from "node:zlib"
import { describe, expect, it } from "vitest"
import { formatApiKey, parseApiKey } from "../src/domain/Access.ts"

const ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
const mode = fc.constantFrom("test" as const, "live" as const)
const random = fc.uint8Array({ minLength: 32, maxLength: 32 })
const valueOf = (digits: string): bigint =>
  [...digits].reduce((sum, digit) => sum * 62n + BigInt(ALPHABET.indexOf(digit)), 0n)

describe("formatApiKey", () => {
  it("writes the lowest and the highest key in 43 digits", () => {
    expect(formatApiKey("test", new Uint8Array(32))).toMatch(/^kiln_test_0{43}[0-9A-Za-z]{6}$/)
    const highest = formatApiKey("live", new Uint8Array(32).fill(0xff))
    expect(highest).toMatch(/^kiln_live_[0-9A-Za-z]{49}$/)
    expect(valueOf(highest.slice(10, 53))).toBe(2n ** 256n - 1n)
  })

  it("carries all random bits and zlib's CRC-32 of everything before the checksum", () => {
    fc.assert(
      fc.property(mode, random, (mode, random) => {
        const key = formatApiKey(mode, random)
        expect(key).toHaveLength(59)
        expect(valueOf(key.slice(10, 53))).toBe(BigInt(`0x${Buffer.from(random).toString("hex")}`))
        expect(valueOf(key.slice(53))).toBe(BigInt(crc32(key.slice(0, 53))))
      }),
    )
  })

  it("refuses more or less than 256 random bits", () => {
    expect(() => formatApiKey("test", new Uint8Array(31))).toThrow(RangeError)
    expect(() => formatApiKey("test", new Uint8Array(33))).toThrow(RangeError)
  })
})

describe("parseApiKey", () => {
  it("returns the mode of every generated key", () => {
    fc.assert(
      fc.property(mode, random, (mode, random) => {
        expect(parseApiKey(formatApiKey(mode, random))).toEqual({ mode })
      }),
    )
  })

  it("refuses a key with any one character changed", () => {
    const character = fc.constantFrom(...ALPHABET, "_", "-", " ", "é")
    fc.assert(
      fc.property(mode, random, fc.nat(58), character, (mode, random, at, character) => {
        const key = formatApiKey(mode, random)
        fc.pre(key[at] !== character)
        expect(parseApiKey(key.slice(0, at) + character + key.slice(at + 1))).toBeUndefined()
      }),
    )
  })

  it("refuses a test key passed off as a live one", () => {
    fc.assert(
      fc.property(random, (random) => {
        expect(parseApiKey(formatApiKey("test", random).replace("_test_", "_live_"))).toBeUndefined()
      }),
    )
  })

  it("refuses a checksum that exceeds 32 bits, even if it is correct modulo 2^32", () => {
    const key = formatApiKey("test", new Uint8Array(32))
    let wrapped = valueOf(key.slice(53)) + 2n ** 32n
    let digits = ""
    for (; digits.length < 6; wrapped /= 62n) digits = ALPHABET[Number(wrapped % 62n)] + digits
    expect(parseApiKey(key.slice(0, 53) + digits)).toBeUndefined()
  })

  it.each(["", "kiln_test_", "sk-live-123", "toString"])("refuses %j", (text) =>
    expect(parseApiKey(text)).toBeUndefined(),
  )

  it("refuses a key with text before or after it", () => {
    const key = formatApiKey("live", new Uint8Array(32).fill(7))
    for (const text of [`${key}\n`, ` ${key}`, `${key}0`, `${key},${key}`, key.toUpperCase()])
      expect(parseApiKey(text)).toBeUndefined()
  })
})
