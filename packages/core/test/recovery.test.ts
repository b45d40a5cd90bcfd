import { assert, describe, it } from "@effect/vitest"
import { defaultEngineSettings, EngineConfig, layerCrypto, layerEngine } from "@kiln/core/effect"
import { MediaProbe, WakeUp } from "@kiln/core/ports"
import { Providers } from "@kiln/core/providers"
import { Worker } from "@kiln/core/worker"
import { MemoryBlobStore, MemoryStores } from "@kiln/testing"
import { Clock, Context, Effect, Layer } from "effect"
import { TestClock } from "effect/testing"
import { everyVerb } from "./support/everyVerb.ts"
import { storeDown } from "./support/faults.ts"
import { plainProviders, speaks, type Stores } from "./support/harness.ts"
import { readJob, running, submitSpeech } from "./support/jobs.ts"
import { comesTrue, passTime, passUntil, stopped } from "./support/virtualTime.ts"
import { makeChannel } from "./support/wakeUps.ts"

const leaseMs = 30_000

/** An engine and its worker, which can be killed: its later calls to the stores never take effect. */
const makeProcess = Effect.fnUntraced(function* (stores: Context.Context<Stores>, wakeUp: WakeUp["Service"]) {
  const begun: Array<number> = []
  let killed = false
  const mortal = everyVerb(stores, (_, call) =>
    Effect.andThen(
      Effect.suspend(() => (killed ? Effect.fail(storeDown) : Effect.void)),
      call,
    ),
  )
  const speech = speaks(() =>
    Effect.andThen(
      Effect.map(Clock.currentTimeMillis, (now) => void begun.push(now)),
      Effect.never,
    ),
  )
  const layer = Worker.layer.pipe(
    Layer.provideMerge(layerEngine),
    Layer.provideMerge(
      Layer.mergeAll(
        Layer.succeedContext(Context.add(mortal, WakeUp, wakeUp)),
        MemoryBlobStore.layer,
        Layer.succeed(Providers, { sandbox: { ...plainProviders, ...speech }, live: {} }),
        Layer.succeed(MediaProbe, { probe: () => Effect.succeed({ seconds: 3 }) }),
        layerCrypto,
      ),
    ),
    Layer.provide(
      // Whatever the setting allows, no worker waits longer than a lease.
      Layer.succeed(EngineConfig, {
        ...defaultEngineSettings,
        leaseDurationMs: leaseMs,
        idlePollIntervalMs: 3_600_000,
        drainMs: 0,
      }),
    ),
  )
  const built = yield* Layer.buildWithMemoMap(layer, Layer.makeMemoMapUnsafe(), yield* Effect.scope)
  return {
    does: Effect.provide(built),
    /** When its provider was called. */
    begun,
    kill: Effect.sync(() => {
      killed = true
    }),
  }
})

/** Two processes over one store. */
const makeTwo = Effect.fnUntraced(function* (wakeUps: readonly [WakeUp["Service"], WakeUp["Service"]]) {
  const stores = yield* Layer.build(Layer.fresh(MemoryStores.layer))
  return [yield* makeProcess(stores, wakeUps[0]), yield* makeProcess(stores, wakeUps[1])] as const
})

const worldOf = <A, E, R>(test: Effect.Effect<A, E, R>) =>
  Effect.provide(Effect.scoped(test), TestClock.layer({ warningDelay: "10 seconds" }))

describe("a job whose worker is killed", () => {
  // Everywhere in the pause of the other, and everywhere between two heartbeats.
  for (const idleMs of [600_000, 607_000, 616_000, 624_000])
    for (const heldMs of [1, 9_999, 10_001, 45_000])
      it.effect(
        `is taken over within its lease and 1 s by an idle worker without notifications: ${idleMs}, ${heldMs}`,
        () =>
          Effect.gen(function* () {
            // Each believes to be heard by all, and neither hears the other.
            const [one, other] = yield* makeTwo([makeChannel().join(), makeChannel().join()])
            yield* other.does(running)
            yield* passTime(idleMs)
            yield* one.does(running)
            const { id } = yield* one.does(submitSpeech("k"))
            yield* passUntil(
              "it runs",
              Effect.sync(() => one.begun.length > 0),
              "1 seconds",
            )
            yield* passTime(heldMs)
            yield* one.kill
            const killedAt = yield* Clock.currentTimeMillis
            yield* passUntil(
              "it is taken over",
              Effect.sync(() => other.begun.length > 0),
              "5 minutes",
            )
            assert.isAtMost((other.begun[0] ?? Infinity) - killedAt, leaseMs + 1_000)
            assert.strictEqual((yield* other.does(readJob(id))).lostWorkers, 1)
          }).pipe(worldOf),
      )
})

describe("a released job", () => {
  it.effect("of a worker that stops is claimed by an idle one immediately", () =>
    Effect.gen(function* () {
      const channel = makeChannel()
      const [one, other] = yield* makeTwo([channel.join(), channel.join()])
      const worker = yield* one.does(running)
      yield* one.does(submitSpeech("k"))
      yield* passTime("1 seconds")
      yield* other.does(running)
      yield* passTime("5 minutes")
      assert.deepStrictEqual([one.begun.length, other.begun.length], [1, 0])
      const stoppedAt = yield* Clock.currentTimeMillis
      yield* stopped(worker, "1 seconds")
      yield* comesTrue(Effect.succeed(false), 0)
      assert.deepStrictEqual(other.begun, [stoppedAt])
    }).pipe(worldOf),
  )
})
