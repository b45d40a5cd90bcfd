import { expect, it } from "vitest"
import { matchesEntityTag, preferredCoding } from "../../src/pages/staticDocument.ts"

it.each([
  [undefined, "identity"],
  ["", "identity"],
  ["gzip", "gzip"],
  ["gzip, deflate, br", "br"],
  ["BR;q=0.5, gzip;q=0.8", "gzip"],
  ["br;q=0, gzip;q=0", "identity"],
  ["*", "br"],
  ["br;q=0, *", "gzip"],
  ["identity, gzip;q=0.5", "identity"],
  ["gzip;q=1.5", "identity"],
  ["zstd", "identity"],
])("Accept-Encoding %j is answered with %s", (header, coding) => {
  expect(preferredCoding(header === undefined ? undefined : [header])).toBe(coding)
})

it("compares entity tags weakly, in lists too", () => {
  const named = ['"a"', 'W/"a"', '"b", "a"', "*"]
  expect(named.filter((header) => !matchesEntityTag([header], '"a"'))).toEqual([])
  expect([undefined, [], ['"b"'], ["a"]].filter((header) => matchesEntityTag(header, '"a"'))).toEqual([])
})
