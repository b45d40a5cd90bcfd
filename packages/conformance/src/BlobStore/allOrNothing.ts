import { BlobStore } from "@kiln/core/ports"
import { expect } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Data from "effect/Data"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Stream from "effect/Stream"
import {
  type BlobTest,
  expectNothingAt,
  expectSameBytes,
  inChunks,
  KIB,
  listKeys,
  NO_LIMIT,
  noise,
  putBytes,
  readBytes,
} from "./support.ts"

class SourceBroke extends Data.TaggedError("SourceBroke")<{ readonly reason: string }> {}

/** Failed operations leave nothing behind. */
export const putIsAllOrNothing = (test: BlobTest): void => {
  limits(test)
  brokenSources(test)
  interruption(test)
}

const limits = (test: BlobTest): void => {
  test(
    "accepts exactly maxBytes",
    Effect.gen(function* () {
      const store = yield* BlobStore
      const bytes = noise(128 * KIB)
      yield* store.put("limit/a", inChunks(bytes, 10 * KIB), { maxBytes: bytes.length })
      expectSameBytes(yield* readBytes("limit/a"), bytes)
      expect(yield* store.put("limit/b", Stream.empty, { maxBytes: 0 })).toMatchObject({ bytes: 0 })
    }),
  )

  test(
    "refuses one byte more, and none of it is readable",
    Effect.gen(function* () {
      const store = yield* BlobStore
      const bytes = noise(128 * KIB)
      const maxBytes = bytes.length - 1
      const error = yield* Effect.flip(store.put("limit/a", inChunks(bytes, 10 * KIB), { maxBytes }))
      expect(error).toMatchObject({ _tag: "BlobTooLarge", maxBytes })
      yield* expectNothingAt("limit/a")
    }),
  )

  test(
    "reads no more than the limit from an endless source, and closes it",
    Effect.gen(function* () {
      const store = yield* BlobStore
      let asked = 0
      let closed = false
      const endless = Stream.unfold(0, (n) => Effect.sync(() => [noise(KIB, ++asked), n] as const)).pipe(
        Stream.ensuring(
          Effect.sync(() => {
            closed = true
          }),
        ),
      )
      const error = yield* Effect.flip(store.put("limit/a", endless, { maxBytes: 10 * KIB }))
      expect(error._tag).toBe("BlobTooLarge")
      expect([asked, closed]).toEqual([11, true])
      yield* expectNothingAt("limit/a")
    }),
  )
}

const brokenSources = (test: BlobTest): void => {
  test(
    "passes on the error of the source, and none of it is readable",
    Effect.gen(function* () {
      const store = yield* BlobStore
      const broken = Stream.concat(
        inChunks(noise(200 * KIB), 30 * KIB),
        Stream.fail(new SourceBroke({ reason: "reset" })),
      )
      const error = yield* Effect.flip(store.put("broken/a", broken, NO_LIMIT))
      expect(error).toEqual(new SourceBroke({ reason: "reset" }))
      yield* expectNothingAt("broken/a")
    }),
  )

  test(
    "passes on a defect of the source, and none of it is readable",
    Effect.gen(function* () {
      const store = yield* BlobStore
      const broken = Stream.concat(inChunks(noise(200 * KIB), 30 * KIB), Stream.die("bug"))
      const exit = yield* Effect.exit(store.put("broken/a", broken, NO_LIMIT))
      expect(Exit.isFailure(exit) && Cause.hasDies(exit.cause)).toBe(true)
      yield* expectNothingAt("broken/a")
    }),
  )

  test(
    "keeps an existing blob when a repeated put of its key fails",
    Effect.gen(function* () {
      const store = yield* BlobStore
      const bytes = noise(100 * KIB)
      yield* putBytes("broken/a", bytes)
      const broken = Stream.concat(inChunks(bytes, 30 * KIB), Stream.fail(new SourceBroke({ reason: "reset" })))
      yield* Effect.flip(store.put("broken/a", broken, NO_LIMIT))
      expectSameBytes(yield* readBytes("broken/a"), bytes)
    }),
  )
}

const interruption = (test: BlobTest): void => {
  test(
    "interrupted in the middle: nothing is readable or listed, the source is closed",
    Effect.gen(function* () {
      const store = yield* BlobStore
      const waiting = yield* Deferred.make<void>()
      let closed = false
      const stalling = Stream.fromEffectDrain(Effect.andThen(Deferred.succeed(waiting, undefined), Effect.never))
      const source = Stream.concat(inChunks(noise(300 * KIB), 50 * KIB), stalling).pipe(
        Stream.ensuring(
          Effect.sync(() => {
            closed = true
          }),
        ),
      )
      const fiber = yield* Effect.forkChild(store.put("stopped/a/b", source, NO_LIMIT))
      yield* Deferred.await(waiting)
      // While it is being written it is not there either.
      yield* expectNothingAt("stopped/a/b")
      yield* Fiber.interrupt(fiber)
      expect(closed).toBe(true)
      yield* expectNothingAt("stopped/a/b")
      expect(yield* listKeys("stopped")).toEqual([])
    }),
  )

  test(
    "interrupted at any moment: readable if and only if it had succeeded",
    Effect.gen(function* () {
      const bytes = noise(20 * KIB)
      let longest = 0
      for (const warmUp of ["a", "b", "c"])
        longest = Math.max(longest, yield* turnsOf(yield* Effect.forkChild(putBytes(`moments/${warmUp}`, bytes))))
      const outcomes = new Set<string>()
      for (let moment = 0; moment < MOMENTS; moment++) {
        const key = `moments/${moment}/a`
        const fiber = yield* Effect.forkChild(putBytes(key, bytes))
        // How long a put takes varies a lot, so the early moments are closer to each other.
        for (let turn = longest ** (moment / MOMENTS); turn > 1; turn--) yield* nextTurn
        yield* Fiber.interrupt(fiber)
        const exit = yield* Fiber.await(fiber)
        outcomes.add(exit._tag)
        if (Exit.isSuccess(exit)) expectSameBytes(yield* readBytes(key), bytes)
        else yield* expectNothingAt(key)
      }
      // The first was interrupted before it began.
      expect(outcomes).toContain("Failure")
    }),
  )
}

const MOMENTS = 80

/** Returns how many turns of the event loop a fiber takes to end. */
const turnsOf = Effect.fnUntraced(function* (fiber: Fiber.Fiber<unknown, unknown>) {
  let turns = 0
  for (; fiber.pollUnsafe() === undefined; turns++) yield* nextTurn
  return turns
})

/** One round of the event loop: one more step of whatever input or output is under way may have ended. */
const nextTurn = Effect.callback<void>((resume) => {
  setImmediate(() => resume(Effect.void))
})
