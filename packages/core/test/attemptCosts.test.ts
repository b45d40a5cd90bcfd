import { assert, describe, it } from "@effect/vitest"
import { jobKind } from "@kiln/core"
import {
  defaultEngineSettings,
  Engine,
  EngineConfig,
  JobEvents,
  layerCrypto,
  layerEngine,
  wholeKind,
} from "@kiln/core/effect"
import { JobKind, JobKinds } from "@kiln/core/kinds"
import { MediaProbe } from "@kiln/core/ports"
import { Providers } from "@kiln/core/providers"
import { Worker } from "@kiln/core/worker"
import { MemoryBlobStore, MemoryStores } from "@kiln/testing"
import { Clock, Deferred, Effect, Fiber, Layer, Metric, Schema } from "effect"
import { everyVerbOf } from "./support/everyVerb.ts"
import { grantOf, principal } from "./support/harness.ts"

/** Counts instead of times: they are the same on every machine. */

const request = Schema.Struct({})
const withEffect: JobKind = JobKind({
  name: "nothing",
  keyScope: "audio.create",
  request,
  run: () => Effect.succeed({ output: {}, files: [], usage: {} }),
})
const withPromise = wholeKind(
  jobKind({
    name: "nothing",
    keyScope: "audio.create",
    request,
    run: () => Promise.resolve({ output: {} }),
  }),
)

/** Runs jobs that do nothing, and counts what that costs between the start of the worker and the end of the last job. */
const costOf = (kind: JobKind, jobs: number, concurrency: number) => {
  const cost = { fibers: 0, sleeps: 0, calls: new Map<string, number>() }
  const stores = everyVerbOf(Layer.fresh(MemoryStores.layer), (verb, call) =>
    Effect.suspend(() => {
      cost.calls.set(verb, (cost.calls.get(verb) ?? 0) + 1)
      return call
    }),
  )
  const settings = { ...defaultEngineSettings, concurrency, queueCap: 0, limits: { perKind: {}, perProject: 0 } }
  const layer = Worker.layer.pipe(
    Layer.provideMerge(layerEngine),
    Layer.provideMerge(
      Layer.mergeAll(
        stores,
        MemoryBlobStore.layer,
        Layer.succeed(Providers, { sandbox: {}, live: {} }),
        Layer.succeed(MediaProbe, { probe: () => Effect.succeed({ seconds: 3 }) }),
        layerCrypto,
      ),
    ),
    Layer.provide(Layer.mergeAll(Layer.succeed(EngineConfig, settings), Layer.succeed(JobKinds, [kind]))),
  )
  const drained = Effect.gen(function* () {
    const engine = yield* Engine
    const events = yield* JobEvents
    const worker = yield* Worker
    const grant = grantOf(principal())
    yield* Effect.forEach(Array.from({ length: jobs }).keys(), (n) => engine.createJob(grant, kind, {}, `key-${n}`), {
      concurrency: "unbounded",
    })
    const allDone = yield* Deferred.make<void>()
    let done = 0
    events.listen(({ type }) => {
      if (type === "completed" && ++done === jobs) Deferred.doneUnsafe(allDone, Effect.void)
    })
    Object.assign(cost, { fibers: 0, sleeps: 0 })
    cost.calls.clear()
    const from = performance.now()
    const running = yield* Effect.forkChild(worker.run)
    yield* Deferred.await(allDone)
    const elapsedMs = performance.now() - from
    const { calls, fibers, sleeps } = cost
    const counted = { fibers: fibers / jobs, sleeps: sleeps / jobs, calls: new Map(calls), elapsedMs }
    yield* Fiber.interrupt(running)
    return counted
  })
  const countFibers = { recordFiberStart: () => void (cost.fibers += 1), recordFiberEnd: () => undefined }
  return Effect.flatMap(Clock.Clock, (clock) => {
    const countingClock: Clock.Clock = {
      currentTimeMillisUnsafe: () => clock.currentTimeMillisUnsafe(),
      currentTimeMillis: clock.currentTimeMillis,
      currentTimeNanosUnsafe: () => clock.currentTimeNanosUnsafe(),
      currentTimeNanos: clock.currentTimeNanos,
      monotonicTimeNanosUnsafe: () => clock.monotonicTimeNanosUnsafe(),
      monotonicTimeNanos: clock.monotonicTimeNanos,
      sleep: (duration) => {
        cost.sleeps += 1
        return clock.sleep(duration)
      },
    }
    return drained.pipe(
      Effect.provide(layer),
      Effect.provideService(Clock.Clock, countingClock),
      Effect.provideService(Metric.FiberRuntimeMetrics, countFibers),
    )
  })
}

const completions = (calls: ReadonlyMap<string, number>): number =>
  (calls.get("completeJobs") ?? 0) + (calls.get("completeAndClaimJobs") ?? 0)

describe("an attempt that does nothing", () => {
  for (const [what, kind] of [
    ["an Effect", withEffect],
    ["a promise", withPromise],
  ] as const)
    it.live(`costs one fiber and no timer: ${what}`, () =>
      Effect.gen(function* () {
        const { calls, elapsedMs, fibers, sleeps } = yield* costOf(kind, 1_000, 100)
        // One for each attempt; the rest is for each claim.
        assert.isAtLeast(fibers, 1)
        assert.isAtMost(fibers, 1.25)
        assert.isAtMost(sleeps, 0.08)
        assert.isAtMost(calls.get("claimJobs") ?? 0, 22)
        assert.strictEqual(completions(calls), 10)
        // Everything else goes by time.
        const rest = [...calls].filter(([verb]) => !/^(claimJobs|complete(AndClaim)?Jobs)$/.test(verb))
        assert.isAtMost(
          rest.reduce((sum, [, count]) => sum + count, 0),
          2 + elapsedMs / 250,
        )
      }),
    )

  it.live("shares claims and completions even in few slots", () =>
    Effect.gen(function* () {
      const { calls } = yield* costOf(withEffect, 100, 10)
      assert.isAtMost(calls.get("claimJobs") ?? 0, 12)
      assert.strictEqual(completions(calls), 10)
    }),
  )
})
