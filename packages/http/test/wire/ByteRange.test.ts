import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { formatContentRange, parseByteRange } from "../../src/wire/ByteRange.ts"

const full = { kind: "full" }
const unsatisfiable = { kind: "unsatisfiable" }
const partial = (start: number, endInclusive: number) => ({ kind: "partial", start, endInclusive })
const size = fc.oneof(fc.nat(12), fc.nat(26_214_400))
// Around the size, and far past any number: 2^64 - 1 is what players send for "to the end".
const position = fc.oneof(
  fc.bigInt(0n, 14n),
  fc.bigInt(0n, 26_214_401n),
  fc.constantFrom(2n ** 53n, 2n ** 64n - 1n, 10n ** 400n),
)

describe("parseByteRange", () => {
  it("selects the bytes that array positions select", () => {
    const file = Uint8Array.from({ length: 12 }, (_, at) => at)
    fc.assert(
      fc.property(fc.nat(12), fc.option(fc.nat(14)), fc.option(fc.nat(14)), (size, first, last) => {
        const range = parseByteRange(`bytes=${first ?? ""}-${last ?? ""}`, size)
        const bytes = file.subarray(0, size)
        const wanted =
          first === null
            ? last === null
              ? bytes
              : last === 0
                ? []
                : bytes.slice(-last)
            : last !== null && last < first
              ? bytes
              : bytes.slice(first, (last ?? 99) + 1)
        const selected = {
          full: () => bytes,
          partial: (start: number, end: number) => bytes.slice(start, end + 1),
          unsatisfiable: () => [],
        }
        const [start, end] = range.kind === "partial" ? [range.start, range.endInclusive] : [0, 0]
        expect([...selected[range.kind](start, end)]).toEqual([...wanted])
        expect(0 <= start && start <= end && end < Math.max(size, 1)).toBe(true)
      }),
      { numRuns: 2000 },
    )
  })

  it("reads positions of any length, with leading zeros or without", () => {
    fc.assert(
      fc.property(size, position, position, fc.nat(30), (size, first, last, zeros) => {
        const satisfiable = first < size ? partial(Number(first), last < size ? Number(last) : size - 1) : unsatisfiable
        const expected = last < first ? full : satisfiable
        expect(parseByteRange(`bytes=${"0".repeat(zeros)}${first}-${last}`, size)).toEqual(expected)
      }),
    )
  })

  it.each([
    ["bytes=0-0", 10, partial(0, 0)],
    ["bytes=0-", 10, partial(0, 9)],
    ["bytes=9-", 10, partial(9, 9)],
    ["bytes=10-", 10, unsatisfiable],
    ["bytes=0-99999999999999999999", 10, partial(0, 9)],
    ["bytes=99999999999999999999-", 10, unsatisfiable],
    ["bytes=99999999999999999999-99999999999999999998", 10, full],
    ["bytes=-3", 10, partial(7, 9)],
    ["bytes=-10", 10, partial(0, 9)],
    ["bytes=-99999999999999999999", 10, partial(0, 9)],
    ["bytes=-0", 10, unsatisfiable],
    ["bytes=-000", 10, unsatisfiable],
    ["bytes=0-", 0, unsatisfiable],
    ["bytes=-5", 0, full],
    ["bytes=-0", 0, unsatisfiable],
    ["Bytes=0-1", 10, partial(0, 1)],
    ["bytes= 0-1 ", 10, partial(0, 1)],
  ])("%s of %i", (header, size, expected) => expect(parseByteRange(header, size)).toEqual(expected))

  it.each([
    undefined,
    "",
    "bytes",
    "bytes=",
    "bytes=-",
    "bytes=a-b",
    "bytes=1",
    "bytes=5-4",
    "bytes=0-1,3-4",
    "bytes=0-1,",
    ",0-1",
    "bytes=0-1;x",
    "bytes 0-1",
    "bytes =0-1",
    "bytes=0 - 1",
    "bytes=+0-1",
    "bytes=0x0-1",
    "bytes=0-1-2",
    "bytes=--1",
    "bytes=1.0-2",
    "items=0-1",
    "xbytes=0-1",
    "bytes=٠-١",
  ])("ignores %j", (header) => expect(parseByteRange(header, 10)).toEqual(full))
})

it("formatContentRange writes the header of 206 and 416", () => {
  expect(formatContentRange(parseByteRange("bytes=2-3", 10), 10)).toBe("bytes 2-3/10")
  expect(formatContentRange(parseByteRange("bytes=10-", 10), 10)).toBe("bytes */10")
  expect(formatContentRange(parseByteRange(undefined, 10), 10)).toBeUndefined()
})
