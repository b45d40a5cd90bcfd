import { BlobStore } from "@kiln/core/ports"
import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { type BlobTest, listKeys, noise, putBytes } from "./support.ts"

export const listsBlobs = (test: BlobTest): void => {
  test(
    "returns the keys under a prefix, without the prefix itself and its siblings",
    Effect.gen(function* () {
      const keys = ["jobs/a", "jobs/a/1/input", "jobs/a/2/output", "jobs/ab/1", "uploads/a/1"]
      for (const key of keys) yield* putBytes(key, noise(10))
      expect(yield* listKeys("jobs/a")).toEqual(["jobs/a/1/input", "jobs/a/2/output"])
      expect(yield* listKeys("jobs")).toEqual(["jobs/a", "jobs/a/1/input", "jobs/a/2/output", "jobs/ab/1"])
      expect(yield* listKeys("jobs/a/1/input")).toEqual([])
      expect(yield* listKeys("job")).toEqual([])
      expect(yield* listKeys("nothing")).toEqual([])
    }),
  )

  test(
    "returns each key once, for any number of keys, even if it is not read to its end",
    Effect.gen(function* () {
      const store = yield* BlobStore
      const keys = Array.from({ length: 150 }, (_, n) => `many/${n % 7}/${n}`)
      yield* Effect.forEach(keys, (key) => putBytes(key, noise(1)), { discard: true, concurrency: 10 })
      expect(yield* listKeys("many")).toEqual([...keys].sort())
      expect(yield* Stream.runCollect(Stream.take(store.list("many"), 3))).toHaveLength(3)
    }),
  )

  test(
    "continues while the listed blobs are removed",
    Effect.gen(function* () {
      const store = yield* BlobStore
      for (let n = 0; n < 40; n++) yield* putBytes(`sweep/${n}/1/a`, noise(1))
      yield* Stream.runForEach(store.list("sweep"), store.remove)
      expect(yield* listKeys("sweep")).toEqual([])
    }),
  )
}
