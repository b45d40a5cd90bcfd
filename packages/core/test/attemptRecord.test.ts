import { describe, expect, it } from "vitest"
import { failedAttempt } from "../src/domain/rules.ts"
import { isStorableText } from "../src/domain/index.ts"
import { attemptRecord, maxAttemptRecordBytes } from "../src/domain/AttemptRecord.ts"

const about = { errorCode: "internal_error", durationMs: 12.6, worker: "host:1" } as const
const bytes = (text: string) => new TextEncoder().encode(text).length

describe("the record of an attempt", () => {
  it("has the message of the error, its stack and the stacks of its causes", () => {
    const cause = new TypeError("no such column")
    const record = attemptRecord(new Error("cannot save", { cause }), about)
    expect(record).toMatchObject({ ...about, durationMs: 13, message: "cannot save" })
    expect(record.stack).toMatch(/^Error: cannot save\n {4}at [^]+\ncaused by: TypeError: no such column\n {4}at /)
  })

  it("is cut to its maximum, between characters, and can be stored everywhere", () => {
    for (const text of ["é😀".repeat(9_000), `a${"😀".repeat(9_000)}`, "a\u0000\ud800", "\ud83d"]) {
      const error = new Error(text)
      error.stack = `Error: ${text}`
      const { message, stack } = attemptRecord(error, about)
      expect([message, stack].every(isStorableText)).toBe(true)
      expect(bytes(message + stack)).toBeLessThanOrEqual(maxAttemptRecordBytes)
      expect(bytes(message + stack)).toBeGreaterThan(Math.min(2 * bytes(text), maxAttemptRecordBytes - 8))
    }
  })

  it("becomes a failed attempt that began as long before as it took", () => {
    const record = { ...about, durationMs: 12, message: "cannot save", stack: null }
    expect(failedAttempt(record, 3, 100)).toEqual({ ...record, number: 3, startedAt: 88 })
  })

  it("has the message of a cause without a stack, and replaces characters that a store cannot keep", () => {
    const cause = Object.assign(new Error("no\u0000stack"), { stack: "" })
    const error = Object.assign(new Error("x", { cause }), { stack: undefined })
    expect(attemptRecord(error, about).stack).toBe("x\ncaused by: no\ufffdstack")
    expect(attemptRecord(Object.assign(new Error("")), about).message).toBe("Error")
    const nameless = Object.assign(new Error(""), { name: "" })
    expect(attemptRecord(nameless, about).message).toBe("")
  })

  it("survives whatever code throws", () => {
    const circular: { self?: unknown } = {}
    circular.self = circular
    const hostile = new Error("x")
    Object.defineProperty(hostile, "message", {
      get: () => {
        throw new Error("no")
      },
    })
    Object.defineProperty(hostile, "stack", {
      get: () => {
        throw new Error("no")
      },
    })
    const loop = new Error("again")
    loop.stack = "Error: again"
    loop.cause = loop
    expect(attemptRecord("text", about)).toMatchObject({ message: "text", stack: null })
    expect(attemptRecord(undefined, about)).toMatchObject({ message: "undefined", stack: null })
    expect(attemptRecord({ status: 503 }, about)).toMatchObject({ message: '{"status":503}', stack: null })
    expect(attemptRecord(circular, about)).toMatchObject({ message: "", stack: null })
    expect(attemptRecord(hostile, about)).toMatchObject({ message: "", stack: null })
    expect(attemptRecord(loop, about).stack?.split("caused by").length).toBe(6)
    expect(attemptRecord(new Error(""), about)).toMatchObject({ message: "Error" })
    expect(attemptRecord("x", { ...about, durationMs: -3 }).durationMs).toBe(0)
  })
})
