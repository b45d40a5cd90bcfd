import { describe, expect, it } from "@effect/vitest"
import { UploadRequest } from "@kiln/core/effect"
import { builtInKinds, decodeFields, type JobKind } from "@kiln/core/kinds"
import { Result } from "effect"
import * as fc from "fast-check"
import { kind } from "./support/harness.ts"

const errorsOf = (name: string, input: unknown) => {
  const decoded = kind(name).reader.read(input)
  return Result.isFailure(decoded) ? decoded.failure.map(({ field, reason }) => `${field}:${reason}`) : []
}

const messagesOf = (name: string, input: unknown) => {
  const decoded = kind(name).reader.read(input)
  return Result.isFailure(decoded) ? decoded.failure.map(({ message }) => message) : []
}

describe("fields of requests", () => {
  const speech = (input: unknown) => errorsOf("speech_synthesis", { input })

  it.each([
    ["missing", undefined, ["input:type"]],
    ["null", null, ["input:type"]],
    ["a number", 5, ["input:type"]],
    ["empty", "", ["input:empty"]],
    ["white space", " \t\n\u00a0", ["input:empty"]],
    ["U+0000", "a\u0000", ["input:characters"]],
    ["a lone surrogate", "a\ud800", ["input:characters"]],
    ["4,096 characters", "x".repeat(4_096), []],
    ["4,097 characters", "x".repeat(4_097), ["input:max_length"]],
    ["4,096 astral characters", "😀".repeat(4_096), []],
    ["4,097 astral characters", "😀".repeat(4_097), ["input:max_length"]],
    ["trailing space over the limit", `${"x".repeat(4_096)} `, ["input:max_length"]],
  ])("text: %s", (_name, value, errors) => {
    expect(speech(value)).toEqual(errors)
  })

  it.each([[null], [undefined], [5], ["x"], [[]]])(
    "a value that is not an object gives one error without a field: %j",
    (input) => {
      expect(errorsOf("speech_synthesis", input)).toEqual([":type"])
    },
  )

  it("a missing required field is distinguished from one of the wrong type", () => {
    expect(errorsOf("speech_synthesis", {})).toEqual(["input:required"])
  })

  it("lists every offending field in the order of the declaration, unknown ones last", () => {
    expect(errorsOf("voice_turn", { zzz: 1, voice: "nobody", instructions: "", maxOutputTokens: 1.5 })).toEqual([
      "uploadId:required",
      "maxOutputTokens:type",
      "instructions:empty",
      "voice:enum",
      "zzz:unknown_field",
    ])
  })

  it("an unknown field is named with the nearest known one, or with all of them", () => {
    expect(messagesOf("speech_synthesis", { input: "x", voise: "nova" })).toEqual([
      'is not a field of this request; did you mean "voice"?',
    ])
    expect(messagesOf("speech_synthesis", { input: "x", temperature: 1 })).toEqual([
      "is not a field of this request (fields: input, voice)",
    ])
  })

  it("names on Object's prototype are neither fields nor voices", () => {
    const input = JSON.parse('{"input":"a","voice":"constructor","__proto__":1,"constructor":2}') as unknown
    expect(errorsOf("speech_synthesis", input)).toEqual([
      "voice:enum",
      "__proto__:unknown_field",
      "constructor:unknown_field",
    ])
  })

  it.each([
    [0, ["maxOutputTokens:min"]],
    [1, []],
    [1_024, []],
    [1_025, ["maxOutputTokens:max"]],
    ["5", ["maxOutputTokens:type"]],
  ])("max output tokens %s", (value, errors) => {
    expect(errorsOf("voice_turn", { uploadId: "x", maxOutputTokens: value })).toEqual(errors)
  })

  it.each([
    [0, "min"],
    [-1, "min"],
    [0.001, undefined],
    [900, undefined],
    [900.001, "max"],
    [true, "type"],
    [null, "type"],
  ])("declared seconds %s", (value, reason) => {
    const decoded = decodeFields(UploadRequest, { format: "wav", declaredSeconds: value })
    expect(Result.isFailure(decoded) ? decoded.failure[0]?.reason : undefined).toBe(reason)
  })

  it("never repeats a value in an error", () =>
    fc.assert(
      fc.property(fc.constantFrom<Array<JobKind>>(...builtInKinds()), fc.string({ minLength: 12 }), (one, secret) => {
        const names = one.reader.fields ?? []
        const decoded = one.reader.read(Object.fromEntries(names.map((name) => [name, [secret]])))
        const errors = Result.isFailure(decoded) ? JSON.stringify(decoded.failure) : ""
        expect(errors).toContain('"type"')
        expect(errors).not.toContain(JSON.stringify(secret))
      }),
    ))
})
