import { assert, describe, it } from "@effect/vitest"
import { builtIn, createEngine } from "@kiln/core"
import {
  defaultEngineSettings,
  Engine,
  EngineConfig,
  Fingerprint,
  JobEvents,
  layerCrypto,
  layerEngine,
  Operator,
} from "@kiln/core/effect"
import { IdGenerator, ScheduleStore, storeAdapter, WakeUp } from "@kiln/core/ports"
import { layerSweeps } from "@kiln/core/worker"
import { memoryBlobs, MemoryBlobStore, MemoryStores } from "@kiln/testing"
import { Context, Effect, Layer } from "effect"
import { expect, it as plain } from "vitest"
import { storesClaimingApart } from "./support/faults.ts"
import { plainProviders, within } from "./support/harness.ts"
import { readJob, running, submitSpeech } from "./support/jobs.ts"
import { comesTrue } from "./support/virtualTime.ts"
import { makeChannel } from "./support/wakeUps.ts"

/** Stores that carry wake-ups between processes. Their creations claim nothing, so a created job needs a wake-up. */
const storesOver = (channel: ReturnType<typeof makeChannel>) =>
  Layer.merge(
    storesClaimingApart,
    Layer.sync(WakeUp, () => channel.join()),
  )

describe("the wake-up that comes with a store", () => {
  it.effect("is the one the engine notifies and the worker waits for", () => {
    const channel = makeChannel()
    channel.isDeaf = true
    return Effect.gen(function* () {
      assert.strictEqual(yield* (yield* WakeUp).reach, "installation")
      yield* running
      const isDone = (id: string) => Effect.map(readJob(id), ({ status }) => status === "done")
      yield* comesTrue(Effect.succeed(false), 0)
      const { id } = yield* submitSpeech("k")
      assert.strictEqual(channel.said, 1)
      assert.isFalse(yield* comesTrue(isDone(id), 0))
      yield* channel.ring
      assert.isTrue(yield* comesTrue(isDone(id), 0))
    }).pipe(within({ stores: storesOver(channel) }))
  })

  it.effect("passes through layers between stores and engine that do not know it", () => {
    const channel = makeChannel()
    const adapters: Layer.Layer<Layer.Success<typeof storesClaimingApart>> = storesOver(channel)
    const base = Layer.empty.pipe(
      Layer.provideMerge(Layer.provideMerge(layerSweeps, layerEngine)),
      Layer.provideMerge(Layer.merge(adapters, MemoryBlobStore.layer)),
      Layer.provide(layerCrypto),
      Layer.provideMerge(Layer.succeed(EngineConfig, defaultEngineSettings)),
    )
    return Effect.gen(function* () {
      const wakeUp = Context.get(yield* Layer.build(base), WakeUp)
      yield* wakeUp.notify
      assert.deepStrictEqual([channel.said, yield* wakeUp.reach], [1, "installation"])
    })
  })

  it.effect("is notified of jobs that an operator's process without an engine submits", () => {
    const channel = makeChannel()
    const schedule = {
      kind: "speech_synthesis",
      request: { input: "a" },
      owner: { projectId: "prj_embedded", keyId: "key_embedded_sandbox", mode: "sandbox" },
      priority: "normal",
      timing: { everyMs: 60_000, from: 0 },
      missed: "once",
      paused: true,
      last: null,
      refusal: null,
    }
    return Effect.gen(function* () {
      const operator = yield* Operator
      yield* (yield* ScheduleStore).writeSchedule("s", 0, { nextAt: null, document: JSON.stringify(schedule) })
      const accepted = yield* operator.runSchedule("s")
      assert.strictEqual(channel.said, 1)
      yield* operator.runSchedule("s")
      const id = accepted?.job.id ?? ""
      yield* operator.cancel(id)
      assert.strictEqual(channel.said, 1)
      yield* operator.retry(id)
      yield* operator.retry(id)
      assert.strictEqual(channel.said, 2)
    }).pipe(
      Effect.provide(
        Operator.layer.pipe(
          Layer.provide(Layer.mergeAll(JobEvents.layer, Fingerprint.layer, IdGenerator.layer)),
          Layer.provide(Layer.sync(WakeUp, () => channel.join())),
          Layer.provideMerge(MemoryStores.layer),
          Layer.provide(layerCrypto),
        ),
      ),
    )
  })

  it.effect("is notified of a signal, and not of one that changes nothing", () => {
    const channel = makeChannel()
    return Effect.gen(function* () {
      const engine = yield* Engine
      const { id: jobId } = yield* submitSpeech("k")
      const said: Array<number> = []
      for (const value of ["a", "a", "b"]) {
        yield* engine.signalJob({ jobId, name: "s", value })
        said.push(channel.said - 1)
      }
      assert.deepStrictEqual(said, [1, 1, 1])
    }).pipe(within({ stores: storesOver(channel) }))
  })

  it.effect("works within the process if the store has none", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* (yield* WakeUp).reach, "process")
    }).pipe(within()),
  )
})

plain("createEngine hands the store's wake-up to engine and worker", async () => {
  const channel = makeChannel()
  await using engine = await createEngine({
    store: storeAdapter(storesOver(channel)),
    blobs: memoryBlobs(),
    kinds: [builtIn.speechSynthesis()],
    providers: { sandbox: plainProviders },
    // Nothing but the wake-up has the job run in time.
    settings: { pollIntervalMs: 3_600_000 },
  })
  expect(await engine.submitAndWait("speech_synthesis", { input: "a" })).toMatchObject({ status: "done" })
  expect(channel.said).toBe(1)
})
