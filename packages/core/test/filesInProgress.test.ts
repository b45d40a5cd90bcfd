import { describe, expect, it } from "@effect/vitest"
import { Deferred, Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { filesInProgress } from "../src/engine/blobs.ts"
import type { BlobStore } from "../src/ports/index.ts"

const filesOf = () => filesInProgress({} as BlobStore["Service"])

/** Begins to write a file; the returned effect ends it. */
const begin = Effect.fnUntraced(function* (files: ReturnType<typeof filesOf>) {
  const written = yield* Deferred.make<void, string>()
  const fiber = yield* Effect.forkChild(Effect.exit(files.writing(Deferred.await(written))), { startImmediately: true })
  return {
    end: Effect.andThen(Deferred.succeed(written, undefined), Fiber.join(fiber)),
    fail: Effect.andThen(Deferred.fail(written, "disk full"), Fiber.join(fiber)),
    stop: Fiber.interrupt(fiber),
  }
})

describe("a completion with files", () => {
  it.effect("does not wait if no other file is being written", () => filesOf().settle)

  it.effect("waits until no file is being written, however the writes end", () =>
    Effect.gen(function* () {
      const files = filesOf()
      const [one, two, three] = [yield* begin(files), yield* begin(files), yield* begin(files)]
      const waiting = yield* Effect.forkChild(files.settle, { startImmediately: true })
      yield* one.end
      yield* two.fail
      expect(waiting.pollUnsafe()).toBeUndefined()
      yield* three.stop
      yield* Fiber.join(waiting)
      yield* files.settle
    }),
  )

  it.effect("waits a millisecond at least for a file that takes longer than others did", () =>
    Effect.gen(function* () {
      const files = filesOf()
      const slow = yield* begin(files)
      for (let n = 0; n < 3; n++) {
        const waiting = yield* Effect.forkChild(files.settle, { startImmediately: true })
        yield* TestClock.adjust("999 micros")
        expect(waiting.pollUnsafe()).toBeUndefined()
        yield* TestClock.adjust("1 micros")
        yield* Fiber.join(waiting)
      }
      yield* slow.end
    }),
  )

  it.effect("waits longer where files take longer, a quarter of what they take, and ten milliseconds at most", () =>
    Effect.gen(function* () {
      for (const [tookMs, waits] of [
        [128, 2],
        [60_000, 10],
      ] as const) {
        const files = filesOf()
        const [first, slow] = [yield* begin(files), yield* begin(files)]
        yield* TestClock.adjust(tookMs)
        yield* first.end
        const waiting = yield* Effect.forkChild(files.settle, { startImmediately: true })
        yield* TestClock.adjust(waits - 1)
        expect(waiting.pollUnsafe()).toBeUndefined()
        yield* TestClock.adjust(1)
        yield* Fiber.join(waiting)
        yield* slow.end
      }
    }),
  )

  it("waits only for files of its own blob store", () =>
    Effect.runPromise(
      Effect.gen(function* () {
        const blobs = {} as BlobStore["Service"]
        expect(filesInProgress(blobs)).toBe(filesInProgress(blobs))
        const slow = yield* begin(filesInProgress(blobs))
        yield* filesOf().settle
        yield* slow.end
      }),
    ))
})
