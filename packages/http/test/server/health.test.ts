import { assert, describe, it } from "@effect/vitest"
import { Worker } from "@kiln/core/worker"
import { Clock, Effect, Fiber, Layer } from "effect"
import { TestClock } from "effect/testing"
import { expect, it as plain } from "vitest"
import { BlobUnavailable, StoreUnavailable } from "@kiln/core/domain"
import { BlobStore, IdGenerator, Switchboard } from "@kiln/core/ports"
import { MemoryBlobStore, MemoryStores } from "@kiln/testing"
import { layerProviderDetails, layerWorkerReadiness, layerWriteReadiness, Readiness } from "../../src/index.ts"
import { startServer } from "./startServer.ts"

describe("Readiness", () => {
  it.effect("is ready when every check passes, and names those that fail", () =>
    Effect.gen(function* () {
      const readiness = yield* Readiness
      yield* readiness.add("store", Effect.succeed(true))
      assert.deepStrictEqual(yield* readiness.report, { status: "ready", checks: { store: "ok" }, details: {} })
      yield* Effect.scoped(
        Effect.gen(function* () {
          yield* readiness.add("blobs", Effect.fail("disk full"))
          yield* readiness.add("worker", Effect.die("broken"))
          assert.deepStrictEqual(yield* readiness.report, {
            status: "unavailable",
            checks: { store: "ok", blobs: "failing", worker: "failing" },
            details: {},
          })
        }),
      )
      assert.deepStrictEqual((yield* readiness.report).checks, { store: "ok" })
    }).pipe(Effect.scoped, Effect.provide(Readiness.layer)),
  )

  it.effect("adds details that do not affect readiness, and omits one that fails or hangs", () =>
    Effect.gen(function* () {
      const readiness = yield* Readiness
      yield* readiness.addDetail("known", Effect.succeed({ n: 1 }))
      yield* readiness.addDetail("failing", Effect.fail("no"))
      yield* readiness.addDetail("hanging", Effect.never)
      const report = yield* Effect.forkChild(readiness.report)
      yield* TestClock.adjust(2_000)
      assert.deepStrictEqual(yield* Fiber.join(report), { status: "ready", checks: {}, details: { known: { n: 1 } } })
    }).pipe(Effect.scoped, Effect.provide(Readiness.layer)),
  )

  it.effect("reports the providers that all workers published, and is ready even if one is paused", () => {
    const layer = layerProviderDetails.pipe(Layer.provideMerge(Readiness.layer), Layer.provideMerge(MemoryStores.layer))
    return Effect.gen(function* () {
      const readiness = yield* Readiness
      const board = yield* Switchboard
      const ready = (provider: string) => ({ provider, status: "ready", reason: null, since: 5 }) as const
      const paused = (provider: string, reason: "quota" | "failing", since: number) =>
        ({ provider, status: "paused", reason, since }) as const
      const publish = (workerId: string, providers: Parameters<typeof board.publishWorker>[0]["providers"]) =>
        board.publishWorker({ workerId, liveKinds: [], providers, ttlMs: 60_000 })
      assert.deepStrictEqual((yield* readiness.report).details, { providers: {} })
      yield* publish("a", [paused("speech", "failing", 3_000), ready("image")])
      yield* publish("b", [paused("speech", "quota", 2_000), paused("image", "failing", 4_000)])
      yield* TestClock.adjust(1_000)
      const { details, status } = yield* readiness.report
      assert.strictEqual(status, "ready")
      assert.deepStrictEqual(details["providers"], {
        speech: {
          status: "paused",
          workers: 2,
          paused_workers: 2,
          reason: "quota",
          paused_since: "1970-01-01T00:00:02.000Z",
        },
        image: {
          status: "ready",
          workers: 2,
          paused_workers: 1,
          reason: "failing",
          paused_since: "1970-01-01T00:00:04.000Z",
        },
      })
    }).pipe(Effect.scoped, Effect.provide(layer))
  })

  it.effect("does not wait for a check that hangs", () =>
    Effect.gen(function* () {
      const readiness = yield* Readiness
      yield* readiness.add("store", Effect.never)
      const report = yield* Effect.forkChild(readiness.report)
      yield* TestClock.adjust(2_000)
      assert.strictEqual(report.pollUnsafe()?._tag, "Success")
    }).pipe(Effect.scoped, Effect.provide(Readiness.layer)),
  )

  it.effect("is not ready while nothing can be stored, and checks again after 5 s", () => {
    let full = false
    const failingWhenFull = <A, E, F>(effect: Effect.Effect<A, E>, failure: F) =>
      Effect.suspend((): Effect.Effect<A, E | F> => (full ? Effect.fail(failure) : effect))
    const stores = Layer.effect(
      Switchboard,
      Effect.map(Switchboard, (board) =>
        Switchboard.of({
          ...board,
          publishWorker: (worker) =>
            failingWhenFull(board.publishWorker(worker), new StoreUnavailable({ operation: "test", cause: "full" })),
        }),
      ),
    ).pipe(Layer.provide(MemoryStores.layer))
    const blobs = Layer.effect(
      BlobStore,
      Effect.map(BlobStore, (store) =>
        BlobStore.of({
          ...store,
          put: (key, content, options) =>
            failingWhenFull(
              store.put(key, content, options),
              new BlobUnavailable({ operation: "test", cause: "full" }),
            ),
        }),
      ),
    ).pipe(Layer.provide(MemoryBlobStore.layer))
    const layer = layerWriteReadiness.pipe(
      Layer.provideMerge(Readiness.layer),
      Layer.provide(Layer.mergeAll(stores, blobs, IdGenerator.layer)),
    )
    return Effect.gen(function* () {
      const readiness = yield* Readiness
      assert.deepStrictEqual((yield* readiness.report).checks, { writes: "ok", blobs: "ok" })
      full = true
      yield* TestClock.adjust(5_000)
      assert.deepStrictEqual((yield* readiness.report).checks, { writes: "failing", blobs: "failing" })
      full = false
      yield* TestClock.adjust(5_000)
      assert.strictEqual((yield* readiness.report).status, "ready")
    }).pipe(Effect.provide(layer))
  })

  it.effect("reports a worker as healthy while the store answers its claims, or while it is fully occupied", () => {
    let nextClaimBy: number | undefined
    let running = 0
    const worker = Layer.succeed(Worker, {
      runClaimable: () => Effect.succeed(0),
      tick: Effect.succeed(0),
      run: Effect.never,
      start: Effect.void,
      running: Effect.sync(() => running),
      lastClaimAt: Effect.sync(() => (nextClaimBy === undefined ? undefined : 0)),
      nextClaimBy: Effect.sync(() => nextClaimBy),
      providers: Effect.succeed([]),
      heldBackMs: Effect.succeed(undefined),
      untilWaitsForRate: Effect.never,
    })
    const layer = layerWorkerReadiness.pipe(Layer.provideMerge(Readiness.layer), Layer.provide(worker))
    return Effect.gen(function* () {
      const readiness = yield* Readiness
      const status = Effect.map(readiness.report, (report) => report.checks["worker"])
      /** Polls it for 8 s, like a load balancer. */
      const settled = Effect.gen(function* () {
        let said: string | undefined
        for (let asked = 0; asked < 4; asked++) {
          const asking = yield* Effect.forkChild(status)
          yield* TestClock.adjust(2_000)
          said = yield* Fiber.join(asking)
        }
        return said
      })
      // It has just begun, and has ten seconds for its first claim.
      assert.strictEqual(yield* status, "ok")
      yield* TestClock.adjust(10_001)
      assert.strictEqual(yield* settled, "failing")
      // However long it may rest.
      nextClaimBy = 30_000
      assert.strictEqual(yield* settled, "ok")
      yield* TestClock.adjust(40_000 - (yield* Clock.currentTimeMillis))
      assert.strictEqual(yield* status, "ok")
      yield* TestClock.adjust(1)
      // Only just late, and seen to claim a moment later: what a blocked event loop looks like.
      const asking = yield* Effect.forkChild(status)
      yield* TestClock.adjust(2_000)
      assert.strictEqual(yield* Fiber.join(asking), "ok")
      nextClaimBy = 60_000
      assert.strictEqual(yield* settled, "ok")
      nextClaimBy = 0
      assert.strictEqual(yield* settled, "failing")
      running = 32
      assert.strictEqual(yield* settled, "ok")
    }).pipe(Effect.provide(layer))
  })
})

plain("/readyz reports the failure while /healthz stays 200", async () => {
  await using server = await startServer()
  let well = true
  await server.run(
    Effect.scoped(
      Effect.gen(function* () {
        const readiness = yield* Readiness
        yield* readiness.add(
          "disk",
          Effect.sync(() => well),
        )
        const ask = (path: string) => Effect.promise(() => fetch(server.url + path))
        expect((yield* ask("/readyz")).status).toBe(200)
        well = false
        const response = yield* ask("/readyz")
        expect(response.status).toBe(503)
        expect(yield* Effect.promise(() => response.json())).toEqual({
          status: "unavailable",
          checks: { store: "ok", disk: "failing" },
          details: {},
        })
        expect((yield* ask("/healthz")).status).toBe(200)
      }),
    ),
  )
})
