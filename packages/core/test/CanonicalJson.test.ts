import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { canonicalJson } from "../src/domain/givenValues.ts"

// Small alphabets make equal parts, swapped parts and look-alikes likely.
const text = fc.oneof(
  fc.string({ unit: fc.constantFrom("a", "b", '"', "\\", ",", ":", "\ud800", "\udc00", "\u0000", "é", "e\u0301") }),
  fc.string(),
)
const { json } = fc.letrec((tie) => ({
  json: fc.oneof(
    { depthSize: "small" },
    fc.constant(null),
    fc.boolean(),
    fc.integer({ min: -3, max: 3 }),
    fc.double({ noNaN: true, noDefaultInfinity: true }),
    text,
    fc.array(tie("json"), { maxLength: 3 }),
    fc
      .uniqueArray(fc.tuple(fc.oneof(text, fc.constantFrom("__proto__", "constructor", "1", "10", "2")), tie("json")), {
        maxLength: 3,
        selector: ([key]) => key,
      })
      .map((entries) => Object.fromEntries(entries)),
  ),
}))

/** JSON values are equal when their members are, in any order, and `-0` is `0`. Written apart from the code under test. */
const equal = (a: unknown, b: unknown): boolean => {
  if (typeof a !== "object" || a === null || typeof b !== "object" || b === null) return a === b
  if (Array.isArray(a) !== Array.isArray(b)) return false
  const [left, right] = [new Map<string, unknown>(Object.entries(a)), new Map<string, unknown>(Object.entries(b))]
  return left.size === right.size && [...left].every(([key, value]) => right.has(key) && equal(value, right.get(key)))
}

/** The same value with its keys in reverse order and its integers spelled with a point. */
const respell = (value: unknown): string => {
  if (typeof value === "number")
    return Number.isInteger(value) && Math.abs(value) < 1e15 ? `${value}.0` : JSON.stringify(value)
  if (typeof value !== "object" || value === null) return JSON.stringify(value)
  if (Array.isArray(value)) return `[ ${value.map(respell).join(" , ")} ]`
  return `{ ${Object.entries(value)
    .toReversed()
    .map(([key, member]) => `${JSON.stringify(key)} : ${respell(member)}`)
    .join(" , ")} }`
}

describe("canonicalJson", () => {
  it("is JSON of the same value", () => {
    fc.assert(
      fc.property(json, (value) => {
        expect(equal(JSON.parse(canonicalJson(value)), value)).toBe(true)
      }),
    )
  })

  it("is equal exactly when the values are", () => {
    fc.assert(
      fc.property(json, json, (a, b) => {
        expect(canonicalJson(a) === canonicalJson(b)).toBe(equal(a, b))
      }),
      { numRuns: 5000 },
    )
  })

  it("keeps values apart that are equal in UTF-8", () => {
    const bytes = (value: unknown) => Buffer.from(canonicalJson(value)).toString("hex")
    expect(new Set(["\ud800", "\udbff", "\ufffd", "\\ud800", "?"].map(bytes)).size).toBe(5)
  })

  it("does not depend on spelling", () => {
    fc.assert(
      fc.property(json, (value) => {
        expect(canonicalJson(JSON.parse(respell(value)))).toBe(canonicalJson(value))
      }),
    )
  })

  it("has the form written down", () => {
    expect(canonicalJson(JSON.parse('{"b":[1.0,-0,1e2,1e21],"a":null,"B":"é\\u0000","10":true,"9":{}}'))).toBe(
      '{"10":true,"9":{},"B":"é\\u0000","a":null,"b":[1,0,100,1e+21]}',
    )
    expect(canonicalJson(JSON.parse('{"__proto__":{"b":1},"a":1}'))).toBe('{"__proto__":{"b":1},"a":1}')
  })

  it("treats an undefined member as absent", () => {
    expect(canonicalJson({ input: "x", voice: undefined })).toBe(canonicalJson({ input: "x" }))
  })

  it.each([
    NaN,
    Infinity,
    1n,
    undefined,
    [undefined],
    Array(2),
    () => 1,
    Symbol("x"),
    new Date(0),
    new Map(),
    { a: [NaN] },
  ])("refuses a value that is not JSON (%#)", (value) => expect(() => canonicalJson(value)).toThrow(TypeError))
})
