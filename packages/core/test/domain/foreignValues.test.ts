import { describe, expect, it } from "vitest"
import { formatApiKey } from "../../src/domain/Access.ts"
import {
  canonicalJson,
  givenField,
  isError,
  isPlainObject,
  isTaggedError,
  readSafely,
  valueOf,
} from "../../src/domain/givenValues.ts"
import { describeDiskProblem, DiskProblem } from "../../src/domain/diskProblem.ts"

const revoked = (): object => {
  const { proxy, revoke } = Proxy.revocable({}, {})
  revoke()
  return proxy
}

describe("names that every object inherits", () => {
  class Given {
    own = 1
    toString = () => "own"
    method() {
      return 2
    }
  }

  it("are not values of a record", () => {
    expect(valueOf({ a: 1 }, "a")).toBe(1)
    expect(valueOf<unknown>({ a: 1 }, "constructor")).toBeUndefined()
    expect(valueOf<unknown>({ a: 1 }, "b")).toBeUndefined()
  })

  it("are not fields of an object from outside, unless they are its own", () => {
    const given = new Given()
    expect(givenField(given, "own")).toBe(1)
    expect(givenField(given, "method")).toBeTypeOf("function")
    expect(givenField(given, "toString")).toBe(given.toString)
    expect(givenField(given, "valueOf")).toBeUndefined()
  })
})

describe("values that are foreign or cannot be read", () => {
  it.each([null, undefined, 1, "text", [], new Map(), () => 1])("%j is no plain object", (value) =>
    expect(isPlainObject(value)).toBe(false),
  )

  it("an object whose prototype has a prototype or nothing of `Object.prototype` is not plain", () => {
    expect(isPlainObject(Object.create({}))).toBe(false)
    expect(isPlainObject(Object.create(Object.create(null)))).toBe(false)
    expect(isPlainObject({})).toBe(true)
    expect(isPlainObject(Object.create(null))).toBe(true)
  })

  it("a revoked proxy is no error", () => {
    expect(readSafely(() => Object.keys(revoked()))).toBeUndefined()
    expect(isError(revoked())).toBe(false)
    expect(isTaggedError(revoked(), "A")).toBe(false)
  })

  it("an exception of the platform is an error, also under another prototype", () => {
    expect(isError(new DOMException("x"))).toBe(true)
    expect(isError({ [Symbol.toStringTag]: "DOMException" })).toBe(true)
    expect(isError({ [Symbol.toStringTag]: "Other" })).toBe(false)
  })

  it("an error is tagged by one of the tags", () => {
    const error = Object.assign(new Error("x"), { _tag: "B" })
    expect(isTaggedError(error, "A", "B")).toBe(true)
    expect(isTaggedError(error, "A")).toBe(false)
    expect(isTaggedError(error)).toBe(false)
    expect(isTaggedError(new Error("x"), "A")).toBe(false)
    const unreadable = Object.defineProperty(new Error("x"), "_tag", {
      get: () => {
        throw new Error("unreadable")
      },
    })
    expect(isTaggedError(unreadable, "A")).toBe(false)
  })

  it.each([NaN, Infinity, -Infinity, 1n, new Map(), () => 1])("%s has no canonical JSON", (value) =>
    expect(() => canonicalJson(value)).toThrow(new TypeError("expected a JSON value")),
  )

  it("a key needs 32 random bytes", () =>
    expect(() => formatApiKey("test", new Uint8Array(31))).toThrow(
      new RangeError("an API key needs exactly 32 random bytes"),
    ))
})

describe("a disk that is full", () => {
  it.each([
    [0, "0 B"],
    [999, "999 B"],
    [1_000, "1 KB"],
    [1_540, "1.5 KB"],
    [2_000_000, "2 MB"],
    [3_000_000_000, "3 GB"],
    [4_000_000_000_000, "4 TB"],
    [5_000_000_000_000_000, "5000 TB"],
  ])("with %i bytes has %s free, and names what still works", (freeBytes, text) => {
    const problem = describeDiskProblem("ENOSPC", { path: "/data", freeBytes })
    expect(problem).toContain(`the disk of /data is full (${text} free): `)
    expect(problem).toContain("Deleting the data of jobs still works: kiln retention run")
  })

  it("is a problem with its cause", () => {
    const cause = new Error("no space")
    const problem = new DiskProblem("full", { cause, code: "ENOSPC", isFull: true })
    expect(problem).toMatchObject({ name: "DiskProblem", message: "full", cause, code: "ENOSPC", isFull: true })
  })

  it("other codes have no description", () => {
    expect(describeDiskProblem("EACCES", { path: "/data", freeBytes: 0 })).toBeUndefined()
    expect(describeDiskProblem(undefined, { path: "/data", freeBytes: 0 })).toBeUndefined()
  })
})
