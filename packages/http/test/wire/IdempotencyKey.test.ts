import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { parseIdempotencyKey } from "../../src/handlers/createJob.ts"

const visible = fc.string({
  unit: fc.integer({ min: 0x21, max: 0x7e }).map((code) => String.fromCharCode(code)),
  minLength: 1,
  maxLength: 255,
})
const unquoted = visible.filter((key) => !/^".*"$/.test(key))
const invalid = { ok: false, reason: "invalid" }

describe("parseIdempotencyKey", () => {
  it("accepts every visible ASCII text, and the same text in quotes as the same key", () => {
    fc.assert(
      fc.property(unquoted, (key) => {
        expect(parseIdempotencyKey([key])).toEqual({ ok: true, key })
        expect(parseIdempotencyKey([`"${key}"`])).toEqual({ ok: true, key })
      }),
    )
  })

  it("removes only one pair of quotes", () => {
    expect(parseIdempotencyKey(['""a""'])).toEqual({ ok: true, key: '"a"' })
    expect(parseIdempotencyKey(['"a'])).toEqual({ ok: true, key: '"a' })
    expect(parseIdempotencyKey(['"'])).toEqual({ ok: true, key: '"' })
  })

  it("counts 1 to 255 characters without the quotes", () => {
    expect(parseIdempotencyKey(["a".repeat(255)]).ok).toBe(true)
    expect(parseIdempotencyKey([`"${"a".repeat(255)}"`]).ok).toBe(true)
    expect(parseIdempotencyKey(["a".repeat(256)])).toEqual(invalid)
    expect(parseIdempotencyKey([`"${"a".repeat(256)}"`])).toEqual(invalid)
  })

  it("distinguishes missing from invalid", () => {
    expect(parseIdempotencyKey(undefined)).toEqual({ ok: false, reason: "missing" })
    expect(parseIdempotencyKey([])).toEqual({ ok: false, reason: "missing" })
    expect(parseIdempotencyKey([""])).toEqual(invalid)
    expect(parseIdempotencyKey(['""'])).toEqual(invalid)
  })

  it("refuses two headers, equal or not", () => {
    expect(parseIdempotencyKey(["a", "a"])).toEqual(invalid)
    expect(parseIdempotencyKey(["a", ""])).toEqual(invalid)
    expect(parseIdempotencyKey(["a, a"])).toEqual(invalid)
  })

  it("refuses any character that is not visible ASCII, anywhere", () => {
    const other = fc
      .oneof(fc.integer({ min: 0, max: 0x20 }), fc.integer({ min: 0x7f, max: 0xffff }))
      .map((code) => String.fromCharCode(code))
    fc.assert(
      fc.property(fc.string({ unit: "grapheme-ascii", maxLength: 20 }), fc.nat(20), other, (text, at, other) => {
        expect(parseIdempotencyKey([text.slice(0, at) + other + text.slice(at)])).toEqual(invalid)
      }),
    )
  })
})
