import { assert, describe, it } from "@effect/vitest"
import { formatId, idBody, idTime, isId, isPromised } from "@kiln/core/domain"
import {
  adoptLineage,
  type BlobLineage,
  continueLineage,
  decodeLineage,
  emptyLineage,
  encodeLineage,
  entryOfKey,
  lineageKey,
  staleEntries,
  startLineage,
  unknownEntries,
  vouchesForAbsence,
  vouchesForTokens,
} from "@kiln/core/worker"
import { promisedId } from "../../src/domain/Ids.ts"
import { makeUuidV7 } from "../../src/ports/IdGenerator.ts"

const hours = 3_600_000
const begin = 1_000 * hours

/** Started once, and in use for `forHours` since. */
const inUse = (forHours: number, from: BlobLineage = emptyLineage): BlobLineage =>
  Array.from({ length: forHours }, (_, n) => begin + (n + 1) * hours).reduce(
    (lineage, now) => continueLineage(lineage, "nonce", now),
    startLineage(from, "nonce", begin),
  )
const vouches = (lineage: BlobLineage, atHour: number, graceHours = 24, newestHour: number | undefined = 10_000) =>
  vouchesForAbsence(lineage, {
    madeAt: begin + atHour * hours,
    newestAt: newestHour === undefined ? undefined : begin + newestHour * hours,
    graceMs: graceHours * hours,
  })

describe("the period a store vouches for", () => {
  it("is the time it was in use, without the grace period at both ends", () => {
    const lineage = inUse(100)
    for (const [hour, answer] of [
      [-1, false],
      [0, false],
      [24, false],
      [25, true],
      [76, true],
      [77, false],
      [101, false],
    ] as const)
      assert.strictEqual(vouches(lineage, hour), answer, `${hour}`)
    assert.isFalse(vouches(emptyLineage, 25))
  })

  it("ends at its newest record, and is empty without records", () => {
    assert.isFalse(vouches(inUse(100), 50, 24, 49))
    assert.isTrue(vouches(inUse(100), 50, 24, 50))
    assert.isFalse(vouchesForAbsence(inUse(100), { madeAt: begin + 50 * hours, newestAt: undefined, graceMs: 1 }))
  })

  it("excludes the time before a start in which another copy may have been in use, whatever records were added since", () => {
    const restored = startLineage(inUse(100), "restored", begin + 200 * hours)
    const later = [300, 400].reduce((lineage, at) => continueLineage(lineage, "n", begin + at * hours), restored)
    for (const hour of [76, 100, 150, 200, 224]) assert.isFalse(vouches(later, hour), `${hour}`)
    for (const hour of [75, 225, 376]) assert.isTrue(vouches(later, hour), `${hour}`)
  })

  it("excludes the time before an adoption", () => {
    const adopted = adoptLineage(inUse(100), ["0000000300/other"], "n", begin + 101 * hours)
    assert.isFalse(vouches(continueLineage(adopted, "n", begin + 400 * hours), 50))
    assert.strictEqual(adopted.generation, 301)
    assert.deepStrictEqual(unknownEntries(adopted, ["0000000300/other", "0000000300/third"]), ["0000000300/third"])
  })

  it("keeps few gaps and never drops one", () => {
    let lineage = emptyLineage
    for (let n = 1; n <= 2_000; n++) lineage = startLineage(lineage, "n", n * 3 * hours)
    // Starts with nothing in between leave one gap.
    assert.strictEqual(lineage.gaps.length, 1)
    for (let n = 1; n <= 2_000; n++) {
      const up = continueLineage(lineage, "n", lineage.seenAt + 5 * hours)
      lineage = startLineage(up, "n", up.seenAt + hours)
    }
    assert.isAtMost(lineage.gaps.length, 500)
    assert.isAtMost(lineage.entries.length, 1_000)
    assert.deepStrictEqual(lineage.gaps.at(-1), [lineage.seenAt - hours, lineage.seenAt])
    assert.strictEqual(lineage.gaps[0]?.[0], 0)
  })
})

describe("a lineage", () => {
  it("is read as it was written", () => {
    assert.deepStrictEqual(decodeLineage(encodeLineage(inUse(3))), inUse(3))
    assert.deepStrictEqual(decodeLineage(null), emptyLineage)
    assert.throws(() => decodeLineage("{}"))
  })

  it("gives its entries keys that are used for nothing else", () => {
    const [entry = ""] = inUse(0).entries
    assert.strictEqual(entry, "0000000001/nonce")
    assert.strictEqual(entryOfKey(lineageKey(entry)), entry)
    for (const key of ["jobs/1/1/audio", "lineage/1/nonce", "lineage/0000000001", "lineage/0000000001/a/b"])
      assert.isUndefined(entryOfKey(key))
  })

  it("removes older entries only after writing the newest, and never those of another copy", () => {
    const lineage = inUse(2)
    const [first = "", second = "", newest = ""] = lineage.entries
    assert.deepStrictEqual(staleEntries(lineage, [first, second, "0000000009/other"]), [])
    assert.deepStrictEqual(staleEntries(lineage, [first, second, newest, "0000000009/other"]), [first, second])
  })
})

it("an id contains its creation time", () => {
  const at = Date.parse("2026-11-22T14:13:57.123Z")
  const uuid = new Uint8Array(16).fill(0xff)
  new DataView(uuid.buffer).setUint32(0, Math.floor(at / 65_536))
  new DataView(uuid.buffer).setUint16(4, at % 65_536)
  assert.strictEqual(idTime(idBody(formatId("job", uuid))), at)
  assert.isUndefined(idTime("unknown"))
})

it("the id of a promised job says so, sorts with the others and keeps its time", () => {
  const uuidV7 = makeUuidV7((size) => crypto.getRandomValues(new Uint8Array(size)))
  for (let n = 0; n < 1_000; n++) {
    const id = formatId("job", uuidV7(begin + n * hours))
    const promised = promisedId(id)
    assert.isTrue(isId("job", promised))
    assert.strictEqual(idTime(idBody(promised)), begin + n * hours)
    assert.deepStrictEqual([id, promised].map(idBody).map(isPromised), [false, true])
    assert.isTrue(promised < formatId("job", uuidV7(begin + n * hours + 1)))
  }
})

describe("what records say of claims", () => {
  it("holds for all files until an adoption, and afterwards only for those of newer jobs", () => {
    const lineage = inUse(10)
    assert.isTrue(vouchesForTokens(lineage, begin, hours))
    const adopted = adoptLineage(lineage, [], "nonce", begin + 20 * hours)
    for (const [hour, answer] of [
      [0, false],
      [20, false],
      [21, false],
      [22, true],
    ] as const)
      assert.strictEqual(vouchesForTokens(adopted, begin + hour * hours, hours), answer, `hour ${hour}`)
    const later = continueLineage(adopted, "nonce", begin + 30 * hours)
    assert.isFalse(vouchesForTokens(startLineage(later, "nonce", begin + 40 * hours), begin + 20 * hours, hours))
    assert.deepStrictEqual(decodeLineage(encodeLineage(later)), later)
  })

  it("is not restricted in a document without adoptions", () => {
    const { adoptedAt: _, ...document } = inUse(1)
    assert.strictEqual(decodeLineage(JSON.stringify(document)).adoptedAt, 0)
  })
})
