import { describe, expect, it } from "vitest"
import {
  decodeLineage,
  emptyLineage,
  encodeLineage,
  entryOfKey,
  StoreBehindBlobs,
  startLineage,
} from "../../src/domain/BlobLineage.ts"

const lineage = { generation: 3, entries: ["0000000003/a"], seenAt: 9, gaps: [[1, 2] as const], adoptedAt: 4 }

describe("a stored lineage", () => {
  it("is read as it was written, also from a version without adoptions", () => {
    expect(decodeLineage(encodeLineage(lineage))).toEqual(lineage)
    const { adoptedAt: _, ...older } = lineage
    expect(decodeLineage(JSON.stringify(older))).toEqual({ ...lineage, adoptedAt: 0 })
    expect(decodeLineage(null)).toBe(emptyLineage)
  })

  it.each([
    null,
    "text",
    7,
    {},
    { ...lineage, generation: "3" },
    { ...lineage, seenAt: null },
    { ...lineage, adoptedAt: "4" },
    { ...lineage, entries: "0000000003/a" },
    { ...lineage, entries: { length: 0 } },
    { ...lineage, entries: ["a", 1] },
    { ...lineage, gaps: null },
    { ...lineage, gaps: [[1, 2], [1]] },
    { ...lineage, gaps: [[1, 2, 3]] },
    { ...lineage, gaps: [[1, "2"]] },
    { ...lineage, gaps: ["ab"] },
  ])("is refused if it is %j", (damaged) =>
    expect(() => decodeLineage(JSON.stringify(damaged))).toThrow(
      new TypeError("the store's lineage record cannot be decoded"),
    ),
  )
})

describe("keys of entries", () => {
  it.each([
    ["lineage/0000000003/a1", "0000000003/a1"],
    ["xlineage/0000000003/a1", undefined],
    ["lineage/000000003/a1", undefined],
    ["lineage/0000000003/a1/b", undefined],
    ["lineage/0000000003/", undefined],
  ])("%s is the entry %s", (key, entry) => expect(entryOfKey(key)).toBe(entry))
})

it("a store behind its blobs names the generation, the entries and the remedy", () => {
  const error = new StoreBehindBlobs({ generation: 3, entries: ["0000000004/b", "0000000005/c"] })
  expect(error._tag).toBe("StoreBehindBlobs")
  expect(error.message).toContain("knows generation 3 of these blobs, but not 0000000004/b, 0000000005/c: ")
  expect(error.message).toContain("another copy of it uses the same blobs. Nothing is removed until this is resolved")
  expect(error.message).toContain("run kiln adopt on the database")
})

it("starting keeps what is known and begins the next generation", () => {
  expect(startLineage(lineage, "b", 10)).toMatchObject({
    generation: 4,
    entries: ["0000000003/a", "0000000004/b"],
    seenAt: 10,
    adoptedAt: 4,
  })
})
