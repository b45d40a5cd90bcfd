import { mkdir, utimes, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Stream } from "effect"
import { TestClock } from "effect/testing"
import { content, drain, EMPTY, LIMIT, onFiles, tree } from "./support/files.ts"

describe("temporary files", () => {
  const left = Effect.fnUntraced(function* (directory: string, name: string, writtenAtMs: number) {
    const path = join(directory, "tmp", name)
    yield* Effect.promise(() => writeFile(path, "left"))
    yield* Effect.promise(() => utimes(path, writtenAtMs / 1000, writtenAtMs / 1000))
  })
  const minutes = 60_000

  for (const prefix of ["jobs", "uploads"])
    it.effect(`that were abandoned are deleted when ${prefix} are listed, in a store without writes`, () =>
      onFiles((store, directory) =>
        Effect.gen(function* () {
          const name = "uploads.a.1.00000000-0000-4000-8000-000000000000.part"
          yield* left(directory, name, 30 * minutes)
          yield* TestClock.adjust(89 * minutes)
          yield* Stream.runDrain(store.list(prefix))
          expect(yield* tree(directory)).toEqual([...EMPTY, `tmp/${name}`])
          // Less than an hour after the last scan: an hourly sweep must delete it on its second run.
          yield* TestClock.adjust(30 * minutes)
          yield* Stream.runDrain(store.list(prefix))
          expect(yield* tree(directory)).toEqual(EMPTY)
        }),
      ),
    )

  it.effect("are deleted although one of them cannot be", () =>
    onFiles((store, directory) =>
      Effect.gen(function* () {
        const nameOf = (n: number) => `uploads.a.${n}.00000000-0000-4000-8000-000000000000.part`
        const stuck = join(directory, "tmp", nameOf(1))
        yield* Effect.promise(() => mkdir(stuck))
        yield* Effect.promise(() => utimes(stuck, 0, 0))
        for (const n of [0, 2, 3]) yield* left(directory, nameOf(n), 0)
        yield* TestClock.adjust(120 * minutes)
        yield* Stream.runDrain(store.list("uploads"))
        expect(yield* tree(directory)).toEqual([...EMPTY, `tmp/${nameOf(1)}/`])
        for (const n of [0, 2, 3]) yield* left(directory, nameOf(n), 0)
        const { _tag } = yield* Effect.flip(store.remove("uploads/a"))
        expect(_tag).toBe("BlobUnavailable")
        expect(yield* tree(directory)).toEqual([...EMPTY, `tmp/${nameOf(1)}/`])
      }),
    ),
  )

  it.effect("that this process is writing are not treated as abandoned", () =>
    onFiles((store, directory) =>
      Effect.gen(function* () {
        const [reached, go] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
        const slow = Stream.fromEffectDrain(Effect.andThen(Deferred.succeed(reached, undefined), Deferred.await(go)))
        const fiber = yield* Effect.forkChild(store.put("a/b", Stream.concat(content, slow), LIMIT))
        yield* Deferred.await(reached)
        yield* TestClock.setTime(Date.now() + 120 * minutes)
        yield* Stream.runDrain(store.list("jobs"))
        expect((yield* tree(directory)).filter((path) => path.endsWith(".part"))).toHaveLength(1)
        yield* Deferred.succeed(go, undefined)
        yield* Fiber.join(fiber)
        yield* drain(store, "a/b")
      }),
    ),
  )

  for (const prefix of ["jobs/a/1/output", "jobs/a"])
    it.effect(
      `of a put in progress are deleted with ${prefix}: BlobUnavailable, nothing left behind; other puts continue`,
      () =>
        onFiles((store, directory) =>
          Effect.gen(function* () {
            const go = yield* Deferred.make<void>()
            const start = Effect.fnUntraced(function* (key: string) {
              const reached = yield* Deferred.make<void>()
              const slow = Stream.fromEffectDrain(
                Effect.andThen(Deferred.succeed(reached, undefined), Deferred.await(go)),
              )
              const fiber = yield* Effect.forkChild(
                Effect.result(store.put(key, content.pipe(Stream.concat(slow), Stream.concat(content)), LIMIT)),
              )
              yield* Deferred.await(reached)
              return fiber
            })
            const gone = yield* start("jobs/a/1/output")
            const others = ["jobs/ab/1/output", "jobs/a/1/output0", "jobs", "uploads/a"].filter(
              (key) => key !== "jobs/a/1/output0" || prefix === "jobs/a/1/output",
            )
            const fibers = yield* Effect.forEach(others, start)
            yield* store.remove(prefix)
            expect((yield* tree(directory)).filter((path) => path.includes("jobs.a.1.output."))).toEqual([])
            yield* Deferred.succeed(go, undefined)
            expect(yield* Fiber.join(gone)).toMatchObject({
              _tag: "Failure",
              failure: { _tag: "BlobUnavailable", operation: "put" },
            })
            for (const fiber of fibers) expect((yield* Fiber.join(fiber))._tag).toBe("Success")
            expect((yield* Effect.flip(store.open("jobs/a/1/output")))._tag).toBe("BlobNotFound")
            for (const key of others) yield* drain(store, key)
            yield* store.remove("jobs")
            yield* store.remove("uploads")
            expect(yield* tree(directory)).toEqual(EMPTY)
          }),
        ),
    )
})
