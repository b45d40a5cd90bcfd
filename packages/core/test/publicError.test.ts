import { Cause } from "effect"
import { describe, expect, it } from "vitest"
import { publicError } from "@kiln/core/effect"

const secret = "the prompt of Ada"
const shownOf = (error: unknown): string => {
  const { message, name, stack } = publicError(Cause.die(error))
  return [name, message, stack].join("\n")
}

class Named extends Error {
  override readonly name = "Named"
}

describe("the public part of an error", () => {
  it.each<[string, Error]>([
    ["a line that looks like a frame", new Error(`no\n    at ${secret} (file.ts:1:1)`)],
    ["only such lines", new Error(`    at ${secret}\n    at ${secret}`)],
    ["a first line that does", new RangeError(`\n    at ${secret}`)],
    ["a class that sets its name later", new Named(`: x\n    at ${secret}`)],
    ["a code in its head", Object.assign(new TypeError(`no\n    at ${secret}`), { code: "ERR_X" })],
    ["a message that was changed", Object.assign(new Error(`no\n    at ${secret}`), { message: "harmless" })],
    [
      "a message that was extended",
      ((error: Error) => Object.assign(error, { message: `when: ${error.message}` }))(
        new Error(`no\n    at ${secret}`),
      ),
    ],
    ["no name", Object.assign(new Error(`no\n    at ${secret}`), { name: "" })],
  ])("does not quote a message with %s", (_, error) => {
    expect(shownOf(error)).not.toContain(secret)
  })

  it.each<[string, Error]>([
    ["a message", new Error("no connection")],
    ["lines", new Error("no\n\nconnection: refused")],
    ["no message", new Error()],
    ["a name that repeats", new Error("Error")],
    ["a class of its own", new Named("no")],
  ])("tells where an error with %s came from", (_, error) => {
    expect(shownOf(error)).toContain("publicError.test.ts")
    expect(shownOf(error)).not.toContain("connection")
  })
})
