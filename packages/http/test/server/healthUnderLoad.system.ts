import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { expect, it as plain } from "vitest"
import { Readiness } from "../../src/index.ts"
import { startServer } from "./startServer.ts"

describe("Readiness", () => {
  /** Asks every second for this long, and returns each status of `blobs`. */
  const askEverySecond = (seconds: number) =>
    Effect.gen(function* () {
      const readiness = yield* Readiness
      const said: Array<string | undefined> = []
      const asker = yield* Effect.forkChild(
        Effect.forEach(Array(seconds).fill(0), () =>
          Effect.andThen(
            Effect.map(readiness.report, ({ checks }) => void said.push(checks["blobs"])),
            Effect.sleep(1_000),
          ),
        ),
      )
      yield* TestClock.adjust(seconds * 1_000)
      yield* Fiber.interrupt(asker)
      return said
    })

  it.effect("stays ready while a check is slow, and runs it once at a time", () =>
    Effect.gen(function* () {
      const readiness = yield* Readiness
      let atOnce = 0
      let most = 0
      let takesMs = 0
      const slow = Effect.suspend(() => {
        most = Math.max(most, ++atOnce)
        return Effect.as(Effect.sleep(takesMs), true)
      })
      yield* readiness.add(
        "blobs",
        Effect.ensuring(
          slow,
          Effect.sync(() => atOnce--),
        ),
        5_000,
      )
      assert.strictEqual((yield* readiness.report).status, "ready")
      takesMs = 25_000
      const said = yield* askEverySecond(120)
      assert.isAbove(said.length, 40)
      assert.deepStrictEqual([...new Set(said)], ["ok"])
      assert.strictEqual(most, 1)
    }).pipe(Effect.scoped, Effect.provide(Readiness.layer)),
  )

  it.effect("is not ready within 30 s of a hanging check, and ready again once it answers", () =>
    Effect.gen(function* () {
      const readiness = yield* Readiness
      let hangs = false
      yield* readiness.add(
        "blobs",
        Effect.suspend(() => (hangs ? Effect.never : Effect.succeed(true))),
      )
      assert.strictEqual((yield* readiness.report).status, "ready")
      hangs = true
      assert.deepStrictEqual(new Set(yield* askEverySecond(29)), new Set(["ok"]))
      yield* askEverySecond(4)
      assert.deepStrictEqual(new Set(yield* askEverySecond(120)), new Set(["failing"]))
      hangs = false
      yield* askEverySecond(31)
      assert.strictEqual((yield* readiness.report).status, "ready")
    }).pipe(Effect.scoped, Effect.provide(Readiness.layer)),
  )

  it.effect("is not ready while a check has never answered", () =>
    Effect.gen(function* () {
      const readiness = yield* Readiness
      yield* readiness.add("blobs", Effect.never)
      assert.deepStrictEqual(new Set(yield* askEverySecond(10)), new Set(["failing"]))
    }).pipe(Effect.scoped, Effect.provide(Readiness.layer)),
  )
})

plain("a process that is only busy stays ready", async () => {
  await using server = await startServer()
  await server.run(
    Effect.scoped(
      Effect.gen(function* () {
        const readiness = yield* Readiness
        // Some turns of the event loop, as a write to a disk takes, each of them late.
        const write = () => new Promise((resolve) => setTimeout(() => setTimeout(() => setImmediate(resolve), 1), 1))
        yield* readiness.add("blobs", Effect.as(Effect.promise(write), true))
        const status = () => fetch(`${server.url}/readyz`).then((response) => response.status)
        expect(yield* Effect.promise(status)).toBe(200)
        const block = setInterval(() => {
          const until = performance.now() + 2_500
          while (performance.now() < until);
        }, 1)
        yield* Effect.addFinalizer(() => Effect.sync(() => clearInterval(block)))
        const said: Array<number> = []
        for (const until = performance.now() + 8_000; performance.now() < until;)
          said.push(yield* Effect.promise(status))
        expect(said.length).toBeGreaterThan(0)
        expect(new Set(said)).toEqual(new Set([200]))
      }),
    ),
  )
})
