import { assert, describe, it } from "@effect/vitest"
import { Engine, ProviderFailure, type ProviderSet } from "@kiln/core"
import { BlobStore, JobStore, Switchboard, UploadStore } from "@kiln/core/ports"
import { StoreUnavailable, BlobUnavailable } from "@kiln/core/domain"
import { expireOverdue, pruneOnce, collectOrphans, Worker } from "@kiln/core/worker"
import { MemoryBlobStore, MemoryStores } from "@kiln/testing"
import { Deferred, Effect, Fiber, Layer, Stream } from "effect"
import { TestClock } from "effect/testing"
import { grantOf, harness, kind, plainProviders, principal, submitSpeech } from "./support/harness.ts"

const mp3 = { data: new Uint8Array([1]), mediaType: "audio/mpeg" }
const speaks = (speak: NonNullable<ProviderSet["speech"]>["speak"]): ProviderSet => ({ ...plainProviders, speech: { speak } })
const read = (jobId: string, who = principal()) => Effect.flatMap(Engine, (engine) => engine.getJob(who, jobId))
const running = Effect.flatMap(Worker, (worker) => Effect.forkScoped(worker.run))
/** The memory stores with some verbs of the job store replaced. */
const wrap = (change: (store: JobStore["Service"]) => Partial<JobStore["Service"]>): typeof MemoryStores.layer =>
  Layer.effect(JobStore, Effect.map(JobStore, (store) => JobStore.of({ ...store, ...change(store) }))).pipe(
    Layer.provideMerge(MemoryStores.layer),
  ) as typeof MemoryStores.layer
const wrapBlobs = (change: (store: BlobStore["Service"]) => Partial<BlobStore["Service"]>): Layer.Layer<BlobStore> =>
  Layer.effect(BlobStore, Effect.map(BlobStore, (store) => BlobStore.of({ ...store, ...change(store) }))).pipe(
    Layer.provide(MemoryBlobStore.layer),
  )
const down = new StoreUnavailable({ operation: "test", cause: "down" })
const uploadOf = (who = principal()) => Effect.gen(function* () {
  const engine = yield* Engine
  const upload = yield* engine.createUpload(who, { format: "wav", declaredSeconds: 3 })
  yield* engine.receiveUpload({ uploadId: upload.id, contentType: "audio/wav", contentLength: undefined, content: Stream.succeed(new TextEncoder().encode("RIFF0000WAVEfmt ")) })
  return upload
})
const openBoard = Effect.gen(function* () {
  const board = yield* Switchboard
  yield* board.setPrice({ name: "svc-audio", currency: "usd", unitAmounts: { input_characters: "0.1", output_tokens: "0.1" } })
  yield* board.activatePrice("svc-audio", true)
  yield* board.setSwitch("ai", true)
  yield* board.setSwitch("audio", true)
  yield* board.publishWorker({ workerId: "w", liveKinds: ["speech_synthesis", "voice_turn", "transcription"], ttlMs: 600_000_000 })
})

describe("defects", () => {
  it.effect("one defect of claimJobs does not end the worker", () => {
    let first = true
    const stores = wrap((store) => ({
      claimJobs: (request) => Effect.suspend(() => {
        if (!first) return store.claimJobs(request)
        first = false
        return Effect.die(new TypeError("one bad row"))
      }),
    }))
    return Effect.gen(function* () {
      yield* running
      const job = yield* submitSpeech("k")
      yield* TestClock.adjust("1 minutes")
      assert.strictEqual((yield* read(job.id)).status, "done")
    }).pipe(Effect.provide(harness({ stores })))
  })

  it.effect("one defect of extendLeases does not end the heartbeat", () => {
    let first = true
    const stores = wrap((store) => ({
      extendLeases: (request) => Effect.suspend(() => {
        if (!first) return store.extendLeases(request)
        first = false
        return Effect.die(new TypeError("one bad row"))
      }),
    }))
    return Effect.gen(function* () {
      yield* running
      const job = yield* submitSpeech("k")
      yield* TestClock.adjust("10 minutes")
      const after = yield* read(job.id)
      assert.deepStrictEqual([after.status, after.errorCode, after.lostWorkers], ["done", null, 0])
    }).pipe(Effect.provide(harness({ stores, sandbox: speaks(() => Effect.as(Effect.sleep("1 minutes"), mp3)) })))
  })

  it.effect("usage that cannot be billed fails the job at once, not as lost workers", () => {
    let replies = 0
    const live: ProviderSet = {
      ...plainProviders,
      reply: { reply: () => Effect.sync(() => (replies++, { text: "hi", outputTokens: 2.5, truncated: false })) },
    }
    return Effect.gen(function* () {
      yield* openBoard
      const who = principal("live")
      const engine = yield* Engine
      const upload = yield* uploadOf(who)
      const { job } = yield* engine.createJob(grantOf(who), kind("voice_turn"), { uploadId: upload.id, maxOutputTokens: 5 }, "k")
      yield* running
      yield* TestClock.adjust("5 minutes")
      const after = yield* read(job.id, who)
      assert.notStrictEqual(after.errorCode, "attempts_exhausted")
      assert.strictEqual(after.lostWorkers, 0)
    }).pipe(Effect.provide(harness({ live })))
  })

  it.effect("a completion the store refuses with a defect fails the job as internal_error", () => {
    let spoken = 0
    const stores = wrap(() => ({ completeJobs: () => Effect.die(new TypeError("constraint")) }))
    return Effect.gen(function* () {
      yield* running
      const job = yield* submitSpeech("k")
      yield* TestClock.adjust("5 minutes")
      const after = yield* read(job.id)
      assert.deepStrictEqual([after.status, after.errorCode, after.lostWorkers], ["failed", "internal_error", 0])
    }).pipe(Effect.provide(harness({ stores, sandbox: speaks(() => Effect.sync(() => (spoken++, mp3))) })))
  })
})

describe("interruption", () => {
  it.effect("a provider that ends by interruption is a failure, not a release", () => {
    let calls = 0
    return Effect.gen(function* () {
      yield* running
      const job = yield* submitSpeech("k")
      yield* TestClock.adjust("1 minutes")
      assert.isBelow(calls, 10)
      assert.strictEqual((yield* read(job.id)).status, "failed")
    }).pipe(Effect.provide(harness({
      sandbox: speaks(() => Effect.suspend(() => { calls++; return calls > 200 ? Effect.succeed(mp3) : Effect.interrupt })),
    })))
  })

  it.effect("a worker stopped while its claim is being answered gives the jobs back", () => {
    const stores = wrap((store) => ({
      claimJobs: (request) => Effect.tap(store.claimJobs(request), () => Effect.sleep("20 millis")),
    }))
    return Effect.gen(function* () {
      const job = yield* submitSpeech("k")
      for (let deploy = 0; deploy < 3; deploy++) {
        const fiber = yield* running
        yield* TestClock.adjust("10 millis")
        const stop = yield* Effect.forkChild(Fiber.interrupt(fiber))
        yield* TestClock.adjust("31 seconds")
        yield* Fiber.join(stop)
      }
      yield* running
      yield* TestClock.adjust("1 seconds")
      const after = yield* read(job.id)
      assert.deepStrictEqual([after.status, after.errorCode, after.lostWorkers], ["done", null, 0])
    }).pipe(Effect.provide(harness({ stores, sandbox: speaks(() => Effect.as(Effect.sleep("1 millis"), mp3)) })))
  })

  it.effect("stop ends within drain + lease though a completion never gets through", () => {
    const stores = wrap(() => ({ completeJobs: () => Effect.fail(down) }))
    return Effect.gen(function* () {
      const fiber = yield* running
      yield* submitSpeech("k")
      yield* TestClock.adjust("1 seconds")
      const stop = yield* Effect.forkChild(Fiber.interrupt(fiber))
      yield* TestClock.adjust("60 seconds")
      assert.isDefined(stop.pollUnsafe(), "still not stopped 35 s after the drain limit")
    }).pipe(Effect.provide(harness({ stores })))
  })
})

describe("money", () => {
  it.effect("a checkpoint that fails once is written again, not bought again", () => {
    let bought = 0
    let first = true
    const stores = wrap((store) => ({
      checkpointJobs: (items) => Effect.suspend(() => {
        if (!first) return store.checkpointJobs(items)
        first = false
        return Effect.fail(down)
      }),
    }))
    const sandbox: ProviderSet = { ...plainProviders, transcription: { transcribe: () => Effect.sync(() => (bought++, { text: "x" })) } }
    return Effect.gen(function* () {
      const engine = yield* Engine
      const upload = yield* uploadOf()
      const { job } = yield* engine.createJob(grantOf(principal()), kind("voice_turn"), { uploadId: upload.id, maxOutputTokens: 5 }, "k")
      yield* running
      yield* TestClock.adjust("1 minutes")
      assert.deepStrictEqual([(yield* read(job.id)).status, bought], ["done", 1])
    }).pipe(Effect.provide(harness({ stores, sandbox })))
  })

  it.effect("a full disk does not buy the same speech over and over", () => {
    let bought = 0
    const blobs = wrapBlobs((store) => ({
      put: (key, content, options) => key.startsWith("jobs/") ? Effect.fail(new BlobUnavailable({ operation: "put", cause: "ENOSPC" })) : store.put(key, content, options),
    }))
    return Effect.gen(function* () {
      yield* running
      yield* submitSpeech("k")
      yield* TestClock.adjust("1 hours")
      assert.isAtMost(bought, 3)
    }).pipe(Effect.provide(harness({ blobs, sandbox: speaks(() => Effect.sync(() => (bought++, mp3))) })))
  })

  it.effect("a Retry-After that is no number is ignored", () => {
    let calls = 0
    return Effect.gen(function* () {
      yield* running
      const job = yield* submitSpeech("k")
      yield* TestClock.adjust("1 hours")
      assert.deepStrictEqual([(yield* read(job.id)).status, calls], ["done", 2])
    }).pipe(Effect.provide(harness({
      sandbox: speaks(() => Effect.suspend(() => ++calls === 1
        ? Effect.fail(new ProviderFailure({ errorCode: "provider_unavailable", retry: true, retryAfterMs: Number("soon") * 1000, detail: "429" }))
        : Effect.succeed(mp3))),
    })))
  })
})

describe("sweeps", () => {
  it.effect("a purge that keeps failing does not keep the others from being purged", () => {
    let poison = ""
    let broken = true
    const blobs = wrapBlobs((store) => ({
      remove: (key) => (broken || key === poison) ? Effect.fail(new BlobUnavailable({ operation: "remove", cause: "EACCES" })) : store.remove(key),
    }))
    return Effect.gen(function* () {
      const worker = yield* Worker
      const engine = yield* Engine
      const blobStore = yield* BlobStore
      const ids: Array<string> = []
      for (const key of ["a", "b", "c"]) { ids.push((yield* submitSpeech(key)).id); yield* TestClock.adjust("1 millis") }
      yield* worker.tick
      poison = `jobs/${ids[0]?.slice(4)}`
      for (const id of ids) yield* Effect.flip(engine.eraseJobData(principal(), id))
      broken = false
      for (let i = 0; i < 5; i++) yield* Effect.exit(pruneOnce)
      assert.strictEqual((yield* Stream.runCollect(blobStore.list("jobs"))).length, 1)
    }).pipe(Effect.provide(harness({ blobs })))
  })
  it.effect("an orphan that cannot be removed does not keep the others", () => {
    let poison = "jobs/0000000000000000000000000a/1/audio"
    const blobs = wrapBlobs((store) => ({
      remove: (key) => (key === poison) ? Effect.fail(new BlobUnavailable({ operation: "remove", cause: "EACCES" })) : store.remove(key),
    }))
    return Effect.gen(function* () {
      const blobStore = yield* BlobStore
      for (const c of ["a", "b", "c"]) yield* blobStore.put(`jobs/0000000000000000000000000${c}/1/audio`, Stream.succeed(new Uint8Array([1])), { maxBytes: 9 })
      yield* Effect.exit(collectOrphans)
      assert.strictEqual((yield* Stream.runCollect(blobStore.list("jobs"))).length, 1)
    }).pipe(Effect.provide(harness({ blobs })))
  })
})
