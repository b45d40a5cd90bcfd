import { BlobStore } from "@kiln/core/ports"
import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import {
  type BlobTest,
  expectNothingAt,
  expectSameBytes,
  KIB,
  listKeys,
  noise,
  putBytes,
  readBytes,
} from "./support.ts"

const putAll = (keys: ReadonlyArray<string>) =>
  Effect.forEach(keys, (key, index) => putBytes(key, noise(100, index + 1)), { discard: true })

export const removesBlobs = (test: BlobTest): void => {
  test(
    "removes the blob of the key and all below it, but no sibling",
    Effect.gen(function* () {
      const store = yield* BlobStore
      const gone = ["jobs/a/1/input", "jobs/a/1/output", "jobs/a/2/output", "jobs/a"]
      const kept = ["jobs/ab/1/output", "jobs/a1", "jobs/0a/1", "jobs/b/a/1", "jobsa/a", "uploads/a/1"]
      yield* putAll([...gone, ...kept])
      yield* store.remove("jobs/a")
      for (const key of gone) yield* expectNothingAt(key)
      expect(
        [...(yield* listKeys("jobs")), ...(yield* listKeys("jobsa")), ...(yield* listKeys("uploads"))].sort(),
      ).toEqual([...kept].sort())
      for (const [index, key] of kept.entries()) expectSameBytes(yield* readBytes(key), noise(100, index + 5))
    }),
  )

  test(
    "removes a blob and leaves the ones under the same parent",
    Effect.gen(function* () {
      const store = yield* BlobStore
      yield* putAll(["jobs/a/1/input", "jobs/a/1/output", "jobs/a/1/output/0"])
      yield* store.remove("jobs/a/1/output/0")
      expect(yield* listKeys("jobs")).toEqual(["jobs/a/1/input", "jobs/a/1/output"])
      yield* store.remove("jobs/a/1/output")
      expect(yield* listKeys("jobs")).toEqual(["jobs/a/1/input"])
    }),
  )

  test(
    "succeeds if there is nothing to remove, also repeatedly",
    Effect.gen(function* () {
      const store = yield* BlobStore
      yield* store.remove("never/was")
      yield* putAll(["jobs/a/1/output"])
      yield* store.remove("jobs/a")
      yield* store.remove("jobs/a")
      yield* expectNothingAt("jobs/a/1/output")
    }),
  )

  test(
    "allows the same key to be put again",
    Effect.gen(function* () {
      const store = yield* BlobStore
      yield* putBytes("jobs/a/1/output", noise(200 * KIB, 1))
      yield* store.remove("jobs/a")
      yield* putBytes("jobs/a/1/output", noise(100 * KIB, 2))
      expectSameBytes(yield* readBytes("jobs/a/1/output"), noise(100 * KIB, 2))
    }),
  )

  test(
    "does not disturb a concurrent put or remove under another prefix",
    Effect.gen(function* () {
      const store = yield* BlobStore
      for (let round = 0; round < 3; round++) {
        const kept = Array.from({ length: 12 }, (_, n) => `jobs/${round}k${n}/1/output`)
        const gone = Array.from({ length: 12 }, (_, n) => `jobs/${round}g${n}`)
        yield* putAll(gone.map((prefix) => `${prefix}/1/output`))
        yield* Effect.all(
          [
            ...kept.map((key) => putBytes(key, noise(KIB))),
            ...[...gone, ...gone].map((prefix) => store.remove(prefix)),
          ],
          { concurrency: "unbounded" },
        )
        expect(yield* listKeys("jobs")).toEqual([...kept].sort())
        // The parent is emptied while the next round fills it again.
        yield* Effect.all(
          [...kept.map((key) => store.remove(key)), ...gone.map((prefix) => putBytes(`${prefix}/2/x`, noise(10)))],
          { concurrency: "unbounded" },
        )
        expect(yield* listKeys("jobs")).toEqual(gone.map((prefix) => `${prefix}/2/x`).sort())
        yield* store.remove("jobs")
        expect(yield* listKeys("jobs")).toEqual([])
      }
    }),
  )

  test(
    "does not disturb a concurrent put when it removes the last blob",
    Effect.gen(function* () {
      const store = yield* BlobStore
      yield* putAll(["jobs/a/1/0"])
      for (let n = 1; n < 60; n++) {
        const put = putBytes(`jobs/a/1/${n}`, noise(100, n))
        yield* Effect.all([put, store.remove(`jobs/a/1/${n - 1}`)], { concurrency: "unbounded" })
        expectSameBytes(yield* readBytes(`jobs/a/1/${n}`), noise(100, n))
      }
      expect(yield* listKeys("jobs")).toEqual(["jobs/a/1/59"])
    }),
  )
}
