import fc from "fast-check"
import { expect, it } from "vitest"
import * as Result from "effect/Result"
import { audioFormats, limits } from "@kiln/core/domain"
import { UploadRequest } from "@kiln/core/effect"
import { decodeFields } from "@kiln/core/kinds"
import { readUpload } from "../src/engine/createUpload.ts"

const decoded = (input: unknown) => {
  const { mine, schema } = { mine: readUpload(input), schema: decodeFields(UploadRequest, input) }
  return { mine: Result.merge(mine), schema: Result.merge(schema), accepted: Result.isSuccess(mine) }
}

const seconds = [1, 0.5, limits.declaredSeconds, limits.declaredSeconds + 1, 0, -1, Number.NaN, Infinity, "1", null]
const formats = [...audioFormats, "midi", "", 1, null, undefined]

it("an announced upload is read as its schema decodes it, with the same errors", () => {
  const value = fc.oneof(fc.constantFrom(...seconds), fc.constantFrom(...formats), fc.jsonValue())
  const request = fc.record(
    {
      format: fc.oneof(fc.constantFrom(...formats), value),
      declaredSeconds: fc.oneof(fc.constantFrom(...seconds), value),
    },
    { requiredKeys: [] },
  )
  const more = fc.dictionary(fc.string(), value)
  const valid = fc.record({
    format: fc.constantFrom(...audioFormats),
    declaredSeconds: fc.constantFrom(0.5, 1, limits.declaredSeconds),
  })
  const input = fc.oneof(
    valid,
    request,
    fc.tuple(request, more).map(([given, others]) => ({ ...others, ...given })),
    fc.tuple(request, more).map(([given, others]) => ({ ...given, ...others })),
    fc.jsonValue(),
  )
  let accepted = 0
  fc.assert(
    fc.property(input, (given) => {
      const read = decoded(given)
      if (read.accepted) accepted += 1
      expect(read.mine).toEqual(read.schema)
    }),
    { numRuns: 2_000 },
  )
  expect(accepted).toBeGreaterThan(100)
})

it.each([undefined, null, [], "text", 1, true, () => undefined, { format: "mp3", declaredSeconds: 2, toString: 1 }])(
  "the same of %s",
  (input) => {
    const read = decoded(input)
    expect(read.accepted).toBe(false)
    expect(read.mine).toEqual(read.schema)
  },
)
