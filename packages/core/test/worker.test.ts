import { assert, describe, it } from "@effect/vitest"
import { Engine, ProviderFailure, type ProviderSet } from "@kiln/core"
import { BlobStore, JobStore, UploadStore } from "@kiln/core/ports"
import { expireOverdue, Worker } from "@kiln/core/worker"
import { Deferred, Effect, Fiber, Stream } from "effect"
import { TestClock } from "effect/testing"
import { grantOf, harness, kind, plainProviders, principal, submitSpeech } from "./support/harness.ts"

const unavailable = new ProviderFailure({ errorCode: "provider_unavailable", retry: true, detail: "busy" })
const speaks = (speak: NonNullable<ProviderSet["speech"]>["speak"]): ProviderSet => ({ ...plainProviders, speech: { speak } })
const read = (jobId: string) => Effect.flatMap(Engine, (engine) => engine.getJob(principal(), jobId))

/** Runs the worker's loop beside the test, so that virtual time can pass under it. */
const running = Effect.flatMap(Worker, (worker) => Effect.forkScoped(worker.run))

describe("attempts", () => {
  it.effect("a job ends done, with its file durable before its row", () =>
    Effect.gen(function* () {
      const worker = yield* Worker
      const job = yield* submitSpeech("k")
      assert.strictEqual(yield* worker.tick, 1)
      const done = yield* read(job.id)
      assert.strictEqual(done.status, "done")
      const [file] = done.files
      assert.strictEqual(file?.mediaType, "audio/mpeg")
      const blobs = yield* BlobStore
      const opened = yield* blobs.open(file?.blobKey ?? "")
      assert.deepStrictEqual([...(yield* Stream.runCollect(opened.content))].flatMap((chunk) => [...chunk]), [1, 2, 3])
    }).pipe(Effect.provide(harness())))

  it.effect("a provider that fails twice is asked a third time, and each failure is counted", () => {
    let calls = 0
    const speech = speaks(() => {
      calls += 1
      return calls < 3 ? Effect.fail(unavailable) : Effect.succeed({ data: new Uint8Array([1]), mediaType: "audio/mpeg" })
    })
    return Effect.gen(function* () {
      yield* running
      const job = yield* submitSpeech("k")
      yield* TestClock.adjust("10 seconds")
      const done = yield* read(job.id)
      assert.deepStrictEqual([done.status, done.failures, done.attempts, calls], ["done", 2, 3, 3])
    }).pipe(Effect.provide(harness({ sandbox: speech })))
  })

  it.effect("the third failure is the last", () =>
    Effect.gen(function* () {
      yield* running
      const job = yield* submitSpeech("k")
      yield* TestClock.adjust("30 seconds")
      const failed = yield* read(job.id)
      assert.deepStrictEqual([failed.status, failed.errorCode, failed.attempts], ["failed", "provider_unavailable", 3])
    }).pipe(Effect.provide(harness({ sandbox: speaks(() => Effect.fail(unavailable)) }))))

  it.effect("Retry-After is waited for", () => {
    let calls = 0
    const asked = new ProviderFailure({ ...unavailable, retryAfterMs: 60_000 })
    return Effect.gen(function* () {
      yield* running
      yield* submitSpeech("k")
      yield* TestClock.adjust("59 seconds")
      assert.strictEqual(calls, 1)
      yield* TestClock.adjust("3 seconds")
      assert.strictEqual(calls, 2)
    }).pipe(
      Effect.provide(
        harness({
          sandbox: speaks(() => {
            calls += 1
            return Effect.fail(asked)
          }),
        }),
      ),
    )
  })

  it.effect("a defect in a provider fails the job as internal_error and leaves the worker alive", () =>
    Effect.gen(function* () {
      yield* running
      const job = yield* submitSpeech("k")
      yield* TestClock.adjust("30 seconds")
      const failed = yield* read(job.id)
      assert.deepStrictEqual([failed.status, failed.errorCode], ["failed", "internal_error"])
      const blobs = yield* BlobStore
      assert.deepStrictEqual(yield* Stream.runCollect(blobs.list("jobs")), [])
    }).pipe(Effect.provide(harness({ sandbox: speaks(() => Effect.die(new Error("boom"))) }))))

  it.effect("a result that is no audio is result_invalid and nothing of it is stored", () =>
    Effect.gen(function* () {
      yield* running
      const job = yield* submitSpeech("k")
      yield* TestClock.adjust("30 seconds")
      assert.strictEqual((yield* read(job.id)).errorCode, "result_invalid")
      const blobs = yield* BlobStore
      assert.deepStrictEqual(yield* Stream.runCollect(blobs.list("jobs")), [])
    }).pipe(
      Effect.provide(
        harness({ sandbox: speaks(() => Effect.succeed({ data: new Uint8Array([60]), mediaType: "text/html" })) }),
      ),
    ))
})

describe("leases", () => {
  it.effect("heartbeats keep a job that takes much longer than a lease", () =>
    Effect.gen(function* () {
      yield* running
      const job = yield* submitSpeech("k")
      yield* TestClock.adjust("5 minutes")
      const store = yield* JobStore
      // Nobody else may have it meanwhile.
      const { claims } = yield* store.claimJobs({
        runnable: [{ kind: "speech_synthesis", mode: "sandbox" }], limit: 1, leaseDurationMs: 1_000, maxLostWorkers: 3,
      })
      assert.strictEqual(claims.length, 0)
      yield* TestClock.adjust("6 minutes")
      const done = yield* read(job.id)
      assert.deepStrictEqual([done.status, done.attempts, done.lostWorkers], ["done", 1, 0])
    }).pipe(
      Effect.provide(
        harness({
          sandbox: speaks(() =>
            Effect.as(Effect.sleep("10 minutes"), { data: new Uint8Array([1]), mediaType: "audio/mpeg" }),
          ),
        }),
      ),
    ))

  it.effect("a job longer than the run limit ends as job_timeout", () =>
    Effect.gen(function* () {
      yield* running
      const job = yield* submitSpeech("k")
      yield* TestClock.adjust("31 minutes")
      yield* expireOverdue
      const failed = yield* read(job.id)
      assert.deepStrictEqual([failed.status, failed.errorCode, failed.ranMs], ["failed", "job_timeout", 30 * 60_000])
    }).pipe(Effect.provide(harness({ sandbox: speaks(() => Effect.never) }))))

  it.effect("a job nobody can run ends as queue_timeout", () =>
    Effect.gen(function* () {
      const job = yield* submitSpeech("k")
      yield* TestClock.adjust("24 hours")
      yield* expireOverdue
      assert.strictEqual((yield* read(job.id)).errorCode, "queue_timeout")
    }).pipe(Effect.provide(harness({ sandbox: {} }))))

  it.effect("an attempt whose job was taken over writes nothing, and its file is removed", () =>
    Effect.gen(function* () {
      const proceed = yield* Deferred.make<void>()
      const layer = harness({
        settings: { leaseDurationMs: 3_000 },
        sandbox: speaks(() =>
          Effect.as(Effect.uninterruptible(Deferred.await(proceed)), { data: new Uint8Array([7]), mediaType: "audio/mpeg" }),
        ),
      })
      yield* Effect.gen(function* () {
        const worker = yield* Worker
        const store = yield* JobStore
        const job = yield* submitSpeech("k")
        const zombie = yield* Effect.forkChild(worker.tick, { startImmediately: true })
        yield* TestClock.adjust("1 millis")
        // Another worker takes over while this one is stuck: its heartbeat finds out.
        const stolen = yield* steal(store)
        yield* TestClock.adjust("5 seconds")
        yield* Deferred.succeed(proceed, undefined)
        yield* TestClock.adjust("1 seconds")
        yield* Fiber.join(zombie)
        const after = yield* read(job.id)
        assert.deepStrictEqual([after.status, after.token, after.output], ["processing", stolen, null])
        const blobs = yield* BlobStore
        assert.deepStrictEqual(yield* Stream.runCollect(blobs.list("jobs")), [])
      }).pipe(Effect.provide(layer))
    }))
})

/** Takes the one running job away as another process would: by letting its lease end unextended. */
const steal = (store: JobStore["Service"]) =>
  Effect.gen(function* () {
    const request = {
      runnable: [{ kind: "speech_synthesis", mode: "sandbox" as const }], limit: 1, leaseDurationMs: 600_000, maxLostWorkers: 3,
    }
    yield* TestClock.adjust("2999 millis")
    for (;;) {
      const { claims } = yield* store.claimJobs(request)
      if (claims[0] !== undefined) return claims[0].token
      // The heartbeat is faster: release on the holder's behalf with the token it has.
      const [job] = yield* store.findJobs([{ jobId: (yield* onlyJob(store)), principal: principal() }])
      yield* store.releaseJobs([{ jobId: job?.id ?? "job_", token: job?.token ?? 0 }])
    }
  })

const onlyJob = (store: JobStore["Service"]) =>
  Effect.map(store.findByIdempotencyKey("key_a", "k"), (job) => job?.id ?? "job_")

describe("stopping", () => {
  it.effect("a worker that stops gives its jobs back, and that costs them nothing", () =>
    Effect.gen(function* () {
      const fiber = yield* running
      const job = yield* submitSpeech("k")
      yield* TestClock.adjust("1 seconds")
      const stop = yield* Effect.forkChild(Fiber.interrupt(fiber))
      yield* TestClock.adjust("25 seconds")
      yield* Fiber.join(stop)
      const released = yield* read(job.id)
      assert.deepStrictEqual(
        [released.status, released.held, released.failures, released.lostWorkers],
        ["processing", false, 0, 0],
      )
      const worker = yield* Worker
      assert.strictEqual(yield* worker.running, 0)
    }).pipe(Effect.provide(harness({ sandbox: speaks(() => Effect.never) }))))

  it.effect("a job that ends within the drain time is finished, not released", () =>
    Effect.gen(function* () {
      const fiber = yield* running
      const job = yield* submitSpeech("k")
      yield* TestClock.adjust("1 seconds")
      const stop = yield* Effect.forkChild(Fiber.interrupt(fiber))
      yield* TestClock.adjust("10 seconds")
      yield* Fiber.join(stop)
      assert.strictEqual((yield* read(job.id)).status, "done")
    }).pipe(
      Effect.provide(
        harness({
          sandbox: speaks(() =>
            Effect.as(Effect.sleep("5 seconds"), { data: new Uint8Array([1]), mediaType: "audio/mpeg" }),
          ),
        }),
      ),
    ))
})

describe("steps", () => {
  it.effect("a voice turn that fails at its last step does not buy the first two again", () => {
    const calls: Array<string> = []
    let spoke = 0
    const noting = <A>(call: string, answer: A) =>
      Effect.sync(() => {
        calls.push(call)
        return answer
      })
    const sandbox: ProviderSet = {
      transcription: { transcribe: () => noting("transcribe", { text: "hello" }) },
      reply: { reply: () => noting("reply", { text: "hi", outputTokens: 1, truncated: true }) },
      speech: {
        speak: () =>
          Effect.suspend(() => {
            calls.push("speak")
            spoke += 1
            return spoke < 3 ? Effect.fail(unavailable) : Effect.succeed({ data: new Uint8Array([1]), mediaType: "audio/mpeg" })
          }),
      },
    }
    return Effect.gen(function* () {
      const engine = yield* Engine
      const uploads = yield* UploadStore
      const blobs = yield* BlobStore
      const upload = yield* engine.createUpload(principal(), { format: "wav", declaredSeconds: 3 })
      const claim = yield* uploads.claimUpload({ uploadId: upload.id, leaseDurationMs: 1_000, maxTransfers: 5 })
      const token = claim._tag === "Claimed" ? claim.token : 0
      const info = yield* blobs.put("uploads/x", Stream.succeed(new Uint8Array([1])), { maxBytes: 10 })
      yield* uploads.completeUpload({ uploadId: upload.id, token, file: { blobKey: "uploads/x", ...info } })
      yield* running
      const { job } = yield* engine.createJob(
        grantOf(principal()), kind("voice_turn"), { uploadId: upload.id, maxOutputTokens: 5 }, "k",
      )
      yield* TestClock.adjust("1 minutes")
      const done = yield* read(job.id)
      assert.deepStrictEqual(calls, ["transcribe", "reply", "speak", "speak", "speak"])
      assert.deepStrictEqual([done.status, done.output, done.warningCode], ["done", { text: "hi" }, "output_truncated"])
    }).pipe(Effect.provide(harness({ sandbox })))
  })
})
