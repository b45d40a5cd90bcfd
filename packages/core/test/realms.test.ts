import { runInNewContext } from "node:vm"
import { isArrayBuffer, isBlob, isBytes, isDate, isError, isTaggedError } from "@kiln/core/domain"
import { canonicalJson } from "@kiln/core/rules"
import { isPlainObject } from "../src/domain/givenValues.ts"
import { type ProviderFailure, resultInvalid } from "@kiln/core/providers"
import { describe, expect, it } from "vitest"

/** A value from another realm, like the platform's values under jest. */
const foreign = (expression: string): unknown => runInNewContext(expression)

describe("values of another realm are recognized like those of this one", () => {
  it("objects and lists are JSON", () => {
    const value = foreign(`({ b: [1, { c: "x" }], a: JSON.parse('{"d":null}') })`)
    expect(canonicalJson(value)).toBe('{"a":{"d":null},"b":[1,{"c":"x"}]}')
    expect(canonicalJson(foreign("Object.create(null)"))).toBe("{}")
  })

  it("class instances are not JSON, whatever their realm", () => {
    class Own {
      readonly field = 1
    }
    const instances = [new Own(), new Map(), new Date(0), Object.create(Object.create(null)), [], () => 1]
    const others = ["new (class Its {})", "new Map()", "new Date(0)", "new Error('x')", "[]", "Object.create({})"]
    for (const value of [...instances, ...others.map(foreign)]) expect(isPlainObject(value), typeof value).toBe(false)
    for (const value of ["new Map()", "new (class Its {})"])
      expect(() => canonicalJson(foreign(value))).toThrow(TypeError)
  })

  it("errors, bytes, buffers and dates are recognized", () => {
    for (const error of [
      new Error("x"),
      new DOMException("x"),
      foreign("new TypeError('x')"),
      foreign("new (class E extends Error {})"),
    ])
      expect(isError(error)).toBe(true)
    expect([{ message: "x" }, "x", undefined, null].map(isError)).toEqual([false, false, false, false])
    for (const bytes of [new Uint8Array(1), Buffer.from("x"), foreign("new Uint8Array(1)")])
      expect(isBytes(bytes)).toBe(true)
    for (const other of [new Uint16Array(1), foreign("new DataView(new ArrayBuffer(1))"), "x", [1]])
      expect(isBytes(other)).toBe(false)
    expect([foreign("new ArrayBuffer(1)"), new ArrayBuffer(1), new Uint8Array(1)].map(isArrayBuffer)).toEqual([
      true,
      true,
      false,
    ])
    expect([foreign("new Date(0)"), new Date(0), 0].map(isDate)).toEqual([true, true, false])
    expect([new Blob(["x"]), new File(["x"], "x"), "x"].map(isBlob)).toEqual([true, true, false])
  })

  it("an error from another copy of kiln has the same meaning", () => {
    const other = foreign(`Object.assign(new Error("x"), { _tag: "ProviderFailure" })`)
    for (const error of [resultInvalid("x"), other])
      expect(isTaggedError<ProviderFailure>(error, "ProviderFailure")).toBe(true)
    expect(isTaggedError<ProviderFailure>({ _tag: "ProviderFailure" }, "ProviderFailure")).toBe(false)
  })
})
