import { expect } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Stream from "effect/Stream"
import { BlobStore } from "@kiln/core/ports"
import type { PlaceCheck } from "../capabilities.ts"
import { expectNothingAt, expectSameBytes, KIB, listKeys, NO_LIMIT, noise, putBytes, readBytes } from "./support.ts"

const sizes = [0, 1, 64 * KIB, 200 * KIB + 7]
const keyOf = (size: number): string => `jobs/a/1/b${size}`

const putAll = Effect.forEach(sizes, (size) => putBytes(keyOf(size), noise(size)), { discard: true })
const expectAll = Effect.gen(function* () {
  for (const size of sizes) expectSameBytes(yield* readBytes(keyOf(size)), noise(size))
  expect(yield* listKeys("jobs")).toEqual(sizes.map(keyOf).toSorted())
})
const removeBlobs = (prefix: string) => Effect.flatMap(BlobStore, (store) => store.remove(prefix))

/** A put whose bytes never end: interrupted when the first of them were taken. */
const putHalf = Effect.fnUntraced(function* (key: string) {
  const store = yield* BlobStore
  const taken = yield* Deferred.make<void>()
  const content = Stream.concat(
    Stream.make(noise(64 * KIB)),
    Stream.fromEffect(Effect.andThen(Deferred.succeed(taken, undefined), Effect.never)),
  )
  const putting = yield* Effect.forkChild(store.put(key, content, NO_LIMIT))
  yield* Deferred.await(taken)
  return putting
})

/** Promises of a blob store across restarts and concurrent openings. */
export const blobPlaceChecks: ReadonlyArray<PlaceCheck<BlobStore>> = [
  {
    name: "after closing and reopening, every blob is complete",
    needs: "durable",
    run: Effect.fnUntraced(function* (session) {
      yield* session(putAll)
      yield* session(expectAll)
      yield* session(expectAll)
    }),
  },
  {
    name: "after closing and reopening, removed blobs stay removed and can be put again",
    needs: "durable",
    run: Effect.fnUntraced(function* (session) {
      yield* session(Effect.andThen(putAll, removeBlobs("jobs/a")))
      yield* session(
        Effect.andThen(
          Effect.forEach(sizes, (size) => expectNothingAt(keyOf(size))),
          putAll,
        ),
      )
      yield* session(expectAll)
    }),
  },
  {
    name: "after closing and reopening, an incomplete blob does not exist",
    needs: "durable",
    run: Effect.fnUntraced(function* (session) {
      yield* session(Effect.andThen(putAll, Effect.flatMap(putHalf("jobs/b/1/half"), Fiber.interrupt)))
      yield* session(Effect.andThen(expectNothingAt("jobs/b/1/half"), expectAll))
    }),
  },
  {
    name: "a second instance immediately reads, lists and removes what the first one wrote",
    needs: "multiProcess",
    run: (session) =>
      session(
        Effect.gen(function* () {
          yield* putAll
          yield* session(expectAll)
          yield* session(removeBlobs(keyOf(1)))
          yield* expectNothingAt(keyOf(1))
        }),
      ),
  },
  {
    name: "another opening does not see a blob that is still being written, and does not disturb it by opening",
    needs: "multiProcess",
    run: (session) =>
      session(
        Effect.gen(function* () {
          const putting = yield* putHalf("jobs/b/1/half")
          yield* session(Effect.andThen(expectNothingAt("jobs/b/1/half"), putAll))
          yield* Fiber.interrupt(putting)
          yield* session(Effect.andThen(expectNothingAt("jobs/b/1/half"), removeBlobs("jobs/b")))
          yield* expectAll
        }),
      ),
  },
  {
    name: "openings that put at the same time do not disturb each other",
    needs: "multiProcess",
    run: Effect.fnUntraced(function* (session) {
      const put = (n: number) => session(putBytes(`jobs/c/${n}/audio`, noise(100 * KIB, n)))
      yield* Effect.forEach([1, 2, 3, 4], put, { concurrency: "unbounded" })
      for (const n of [1, 2, 3, 4]) expectSameBytes(yield* session(readBytes(`jobs/c/${n}/audio`)), noise(100 * KIB, n))
    }),
  },
]
