import { randomBytes } from "node:crypto"
import { makeUuidV7 } from "../src/ports/IdGenerator.ts"
import { describe, expect, it } from "vitest"

const hex = (uuid: Uint8Array) => Buffer.from(uuid).toString("hex")
const ones = (size: number) => new Uint8Array(size).fill(255)

describe("UUIDv7", () => {
  it("holds the time, the version and the variant", () => {
    const next = makeUuidV7((size) => randomBytes(size))
    for (const unixMs of [0, 1, 1_700_000_000_123, 2 ** 48 - 1]) {
      const text = hex(makeUuidV7((size) => randomBytes(size))(unixMs))
      expect(Number.parseInt(text.slice(0, 12), 16)).toBe(unixMs)
      expect(text[12]).toBe("7")
      expect(text[16]).toMatch(/[89ab]/)
      expect(text).toHaveLength(32)
    }
    expect(hex(next(1))).not.toBe(hex(next(1)))
  })

  it("ascends within a millisecond, and while the clock stands still or goes back", () => {
    const next = makeUuidV7((size) => randomBytes(size))
    const times = Array.from({ length: 10_000 }, (_, n) => 1_700_000_000_000 + (n % 7 === 0 ? -n : Math.floor(n / 100)))
    const made = times.map((unixMs) => hex(next(unixMs)))
    expect(made.toSorted()).toEqual(made)
    expect(new Set(made).size).toBe(made.length)
  })

  it("starts its counter in the lower half, also from the highest random bits", () => {
    const next = makeUuidV7(ones)
    const first = hex(next(5))
    expect(first).toBe("00000000000577ffbfffffffffffffff")
    expect(hex(next(5)).slice(0, 24)).toBe("000000000005780080000000")
  })

  it("never uses a random byte twice", () => {
    let served = 0
    const next = makeUuidV7((size) => Uint8Array.from({ length: size }, () => Math.floor(served++ / 4) % 251))
    const tails = Array.from({ length: 2_000 }, () => next(1)[15])
    expect(tails).toEqual(tails.map((_, n) => (n + 2) % 251))
  })

  it("accepts a pool that is part of a larger buffer", () => {
    const large = randomBytes(10_000)
    const part = (size: number) => new Uint8Array(large.buffer, large.byteOffset + 64, size)
    expect(hex(makeUuidV7(part)(1)).slice(24)).toBe(large.subarray(72, 76).toString("hex"))
  })
})
