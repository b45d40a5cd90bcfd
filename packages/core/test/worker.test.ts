import { assert, describe, it } from "@effect/vitest"
import { Engine } from "@kiln/core/effect"
import { BlobStore, JobStore, Switchboard } from "@kiln/core/ports"
import { ProviderFailure, type ProviderSet } from "@kiln/core/providers"
import { expireOverdue, Worker } from "@kiln/core/worker"
import { Clock, Deferred, Effect, Exit, Layer, Random, Scope, Stream } from "effect"
import { blobsDown, blobsWith, makeOutage, storeDown, storesWith } from "./support/faults.ts"
import { mp3, plainProviders, principal, speaks, within } from "./support/harness.ts"
import { finished, readJob, running, submitSpeech, submitVoiceTurn } from "./support/jobs.ts"
import { ended, inTime, passTime, passUntil, stopped } from "./support/virtualTime.ts"

const unavailable = new ProviderFailure({ errorCode: "provider_unavailable", retry: true, detail: "busy" })
const storedForJobs = Effect.flatMap(BlobStore, (blobs) => Stream.runCollect(blobs.list("jobs")))

/** Takes a job away from the worker that has just claimed it, by giving it back in its name. Answers the new claim's token. */
const takeOver = Effect.fnUntraced(function* (jobId: `job_${string}`) {
  const store = yield* JobStore
  yield* passUntil(
    "the job is claimed",
    Effect.map(readJob(jobId), ({ held }) => held),
    "1 seconds",
  )
  const { kind, kindVersion, token } = yield* readJob(jobId)
  yield* store.releaseJobs([{ jobId, token }])
  const runnable = [{ kind, kindVersion, mode: "sandbox" as const }]
  const { claims } = yield* store.claimJobs({
    runnable,
    limits: { perKind: {}, perProject: 0 },
    limit: 1,
    leaseDurationMs: 600_000,
    maxLostWorkers: 3,
  })
  assert.deepStrictEqual(
    claims.map((claim) => claim.job.id),
    [jobId],
  )
  return claims[0]?.token
})

describe("attempts", () => {
  it.effect("a job ends done, with its file durable before its row", () =>
    Effect.gen(function* () {
      const worker = yield* Worker
      const job = yield* submitSpeech("k")
      assert.strictEqual(yield* worker.tick, 1)
      const done = yield* readJob(job.id)
      assert.strictEqual(done.status, "done")
      const [file] = done.files
      assert.strictEqual(file?.mediaType, "audio/mpeg")
      const blobs = yield* BlobStore
      const opened = yield* blobs.open(file?.blobKey ?? "")
      assert.deepStrictEqual(
        [...(yield* Stream.runCollect(opened.content))].flatMap((chunk) => [...chunk]),
        [...mp3.data],
      )
    }).pipe(within()),
  )

  it.effect("a provider that fails twice is called a third time, and each failure is counted", () => {
    let calls = 0
    const speech = speaks(() => {
      calls += 1
      return calls < 3 ? Effect.fail(unavailable) : Effect.succeed(mp3)
    })
    return Effect.gen(function* () {
      yield* running
      const job = yield* submitSpeech("k")
      const done = yield* finished(job.id, "10 seconds")
      assert.deepStrictEqual([done.status, done.failures, done.attempts, calls], ["done", 2, 3, 3])
    }).pipe(within({ sandbox: speech }))
  })

  it.effect("the third failure is the last", () =>
    Effect.gen(function* () {
      yield* running
      const job = yield* submitSpeech("k")
      const failed = yield* finished(job.id, "30 seconds")
      assert.deepStrictEqual([failed.status, failed.errorCode, failed.attempts], ["failed", "provider_unavailable", 3])
    }).pipe(within({ sandbox: speaks(() => Effect.fail(unavailable)) })),
  )

  it.effect("Retry-After is respected", () => {
    let calls = 0
    const asked = new ProviderFailure({ ...unavailable, retryAfterMs: 60_000 })
    return Effect.gen(function* () {
      yield* running
      yield* submitSpeech("k")
      yield* passTime("59 seconds")
      assert.strictEqual(calls, 1)
      yield* passTime("3 seconds")
      assert.strictEqual(calls, 2)
    }).pipe(
      within({
        sandbox: speaks(() => {
          calls += 1
          return Effect.fail(asked)
        }),
      }),
    )
  })

  it.effect("a defect in a provider fails the job as internal_error and leaves the worker alive", () =>
    Effect.gen(function* () {
      yield* running
      const job = yield* submitSpeech("k")
      const failed = yield* finished(job.id, "30 seconds")
      assert.deepStrictEqual([failed.status, failed.errorCode], ["failed", "internal_error"])
      assert.deepStrictEqual(yield* storedForJobs, [])
    }).pipe(within({ sandbox: speaks(() => Effect.die(new Error("boom"))) })),
  )

  it.effect("a result that is not audio is result_invalid, and nothing of it is stored", () =>
    Effect.gen(function* () {
      yield* running
      const job = yield* submitSpeech("k")
      assert.strictEqual((yield* finished(job.id, "30 seconds")).errorCode, "result_invalid")
      assert.deepStrictEqual(yield* storedForJobs, [])
    }).pipe(within({ sandbox: speaks(() => Effect.succeed({ data: new Uint8Array([60]), mediaType: "text/html" })) })),
  )
})

describe("pauses", () => {
  /** The delays of deferrals, and the time from each to the next claim, in milliseconds. */
  const watching = () => {
    const delays: Array<number> = []
    const gaps: Array<number> = []
    let deferredAt: number | undefined
    const stores = storesWith(JobStore, (store) => ({
      deferJobs: (items) =>
        Effect.tap(store.deferJobs(items), () =>
          Effect.map(Clock.currentTimeMillis, (now) => {
            delays.push(...items.map(({ delayMs }) => delayMs))
            deferredAt = now
          }),
        ),
      claimJobs: (request) =>
        Effect.tap(store.claimJobs(request), ({ claims }) =>
          Effect.map(Clock.currentTimeMillis, (now) => {
            if (claims.length > 0 && deferredAt !== undefined) gaps.push(now - deferredAt)
          }),
        ),
    }))
    return { delays, gaps, stores }
  }

  it.effect("a postponed job is not claimed before its pause, which doubles with each attempt", () => {
    const { delays, gaps, stores } = watching()
    const outage = makeOutage(blobsDown)
    // The worker's probe of the blob store succeeds, so that only the pause prevents a claim.
    const blobs = blobsWith((store) => ({
      put: (key, content, options) =>
        key.endsWith("/probe") ? store.put(key, content, options) : outage.strikes(store.put(key, content, options)),
    }))
    return Effect.gen(function* () {
      yield* outage.begin
      yield* running
      const job = yield* submitSpeech("k")
      yield* passUntil(
        "it is tried four times",
        Effect.sync(() => gaps.length >= 3),
        "10 minutes",
      )
      assert.deepStrictEqual(delays, [1_000, 2_000, 4_000])
      // Store time is in whole milliseconds, the virtual clock is not.
      for (const [index, gap] of gaps.entries()) assert.isAbove(gap, (delays[index] ?? Infinity) - 1)
      yield* outage.end
      const done = yield* finished(job.id, "5 minutes")
      assert.deepStrictEqual([done.status, done.failures], ["done", 0])
    }).pipe(within({ blobs, stores }))
  })

  it.effect("each failure doubles the maximum of the next pause", () => {
    const { delays, gaps, stores } = watching()
    return Effect.gen(function* () {
      yield* running
      const job = yield* submitSpeech("k")
      assert.strictEqual((yield* finished(job.id, "1 minutes")).status, "failed")
      assert.deepStrictEqual(delays, [999, 1_998])
      for (const [index, gap] of gaps.entries()) assert.isAtLeast(gap, delays[index] ?? Infinity)
    }).pipe(
      within({ stores, sandbox: speaks(() => Effect.fail(unavailable)) }),
      Effect.provideService(Random.Random, { nextDoubleUnsafe: () => 0.999, nextIntUnsafe: () => 1 }),
    )
  })
})

describe("waiters in the worker's process", () => {
  const rejected = new ProviderFailure({ errorCode: "content_rejected", retry: false, detail: "no" })
  for (const [what, answer] of [
    ["is done", Effect.succeed(mp3)],
    ["failed", Effect.fail(rejected)],
  ] as const)
    it.effect(`are woken immediately by a job that ${what}`, () =>
      Effect.gen(function* () {
        const engine = yield* Engine
        yield* running
        const job = yield* submitSpeech("k")
        const waiting = yield* Effect.forkChild(engine.waitForJob(principal(), job.id))
        // A waiting caller polls at 9,150 ms and at 11,150 ms.
        yield* passTime("9900 millis")
        assert.isUndefined(waiting.pollUnsafe())
        yield* passTime("200 millis")
        assert.isDefined(waiting.pollUnsafe())
      }).pipe(within({ sandbox: speaks(() => Effect.andThen(Effect.sleep("10 seconds"), answer)) })),
    )
})

describe("the status of a worker", () => {
  it.effect("the time of its last claim is that of a response, not of a request", () => {
    const outage = makeOutage(storeDown)
    const stores = storesWith(JobStore, (store) => ({
      claimJobs: (request) => outage.strikes(store.claimJobs(request)),
    }))
    return Effect.gen(function* () {
      const worker = yield* Worker
      yield* outage.begin
      yield* running
      yield* passTime("10 seconds")
      assert.isUndefined(yield* worker.lastClaimAt)
      yield* outage.end
      yield* passTime("2 seconds")
      assert.isAtLeast((yield* worker.lastClaimAt) ?? 0, 10_000)
    }).pipe(within({ stores }))
  })

  it.effect("its live kinds are withdrawn when it stops", () =>
    Effect.gen(function* () {
      const board = yield* Switchboard
      const scope = yield* Scope.make()
      yield* Layer.buildWithScope(Layer.fresh(Worker.layerRunning), scope)
      assert.include((yield* board.readBoard).liveKinds, "speech_synthesis")
      yield* inTime(Scope.close(scope, Exit.void), "1 minutes")
      assert.deepStrictEqual((yield* board.readBoard).liveKinds, [])
    }).pipe(within({ live: plainProviders })),
  )
})

describe("leases", () => {
  it.effect("heartbeats keep a job that runs much longer than a lease", () =>
    Effect.gen(function* () {
      yield* running
      const job = yield* submitSpeech("k")
      yield* passTime("5 minutes")
      const store = yield* JobStore
      // No other worker may claim it in the meantime.
      const { claims } = yield* store.claimJobs({
        runnable: [{ kind: "speech_synthesis", kindVersion: 1, mode: "sandbox" }],
        limits: { perKind: {}, perProject: 0 },
        limit: 1,
        leaseDurationMs: 1_000,
        maxLostWorkers: 3,
      })
      assert.strictEqual(claims.length, 0)
      const done = yield* finished(job.id, "6 minutes")
      assert.deepStrictEqual([done.status, done.attempts, done.lostWorkers], ["done", 1, 0])
    }).pipe(within({ sandbox: speaks(() => Effect.as(Effect.sleep("10 minutes"), mp3)) })),
  )

  it.effect("a job that exceeds the run limit fails with job_timeout", () =>
    Effect.gen(function* () {
      yield* running
      const job = yield* submitSpeech("k")
      yield* passTime("31 minutes")
      yield* expireOverdue
      const failed = yield* readJob(job.id)
      assert.deepStrictEqual([failed.status, failed.errorCode, failed.ranMs], ["failed", "job_timeout", 30 * 60_000])
    }).pipe(within({ sandbox: speaks(() => Effect.never) })),
  )

  it.effect("a job that no worker can run fails with queue_timeout", () =>
    Effect.gen(function* () {
      const job = yield* submitSpeech("k")
      yield* passTime("59999 millis")
      yield* expireOverdue
      assert.strictEqual((yield* readJob(job.id)).status, "queued")
      yield* passTime("1 millis")
      yield* expireOverdue
      assert.strictEqual((yield* readJob(job.id)).errorCode, "queue_timeout")
    }).pipe(within({ sandbox: {}, settings: { queueLimitMs: 60_000 } })),
  )

  it.effect("an attempt whose job was taken over writes nothing, and its file is removed", () => {
    const answer = Deferred.makeUnsafe<typeof mp3>()
    const put: Array<string> = []
    const blobs = blobsWith((store) => ({
      put: (key, content, options) =>
        Effect.tap(store.put(key, content, options), () => {
          put.push(key)
          return Effect.void
        }),
    }))
    return Effect.gen(function* () {
      const worker = yield* Worker
      const job = yield* submitSpeech("k")
      const attempt = yield* Effect.forkChild(worker.tick)
      const token = yield* takeOver(job.id)
      yield* Deferred.succeed(answer, mp3)
      yield* ended(attempt, "1 seconds")
      const after = yield* readJob(job.id)
      assert.deepStrictEqual([after.status, after.token, after.output], ["processing", token, null])
      assert.strictEqual(put.length, 1)
      assert.deepStrictEqual(yield* storedForJobs, [])
    }).pipe(within({ blobs, sandbox: speaks(() => Deferred.await(answer)) }))
  })

  it.effect("the next heartbeat ends an attempt whose job was taken over", () => {
    let interrupted = false
    const sandbox = speaks(() =>
      Effect.onInterrupt(Effect.never, () =>
        Effect.sync(() => {
          interrupted = true
        }),
      ),
    )
    return Effect.gen(function* () {
      const worker = yield* Worker
      const job = yield* submitSpeech("k")
      const attempt = yield* Effect.forkChild(worker.tick)
      const token = yield* takeOver(job.id)
      // A third of a lease.
      yield* ended(attempt, "1 seconds")
      assert.isTrue(interrupted)
      const after = yield* readJob(job.id)
      assert.deepStrictEqual([after.status, after.held, after.token], ["processing", true, token])
    }).pipe(within({ settings: { leaseDurationMs: 3_000 }, sandbox }))
  })
})

describe("stopping", () => {
  it.effect("a worker that stops releases its jobs, at no cost to them", () =>
    Effect.gen(function* () {
      const fiber = yield* running
      const job = yield* submitSpeech("k")
      yield* passTime("1 seconds")
      yield* stopped(fiber, "25 seconds")
      const released = yield* readJob(job.id)
      assert.deepStrictEqual(
        [released.status, released.held, released.failures, released.lostWorkers],
        ["processing", false, 0, 0],
      )
      const worker = yield* Worker
      assert.strictEqual(yield* worker.running, 0)
    }).pipe(within({ sandbox: speaks(() => Effect.never) })),
  )

  it.effect("a single round that is interrupted releases its jobs as well", () =>
    Effect.gen(function* () {
      const worker = yield* Worker
      const job = yield* submitSpeech("k")
      const round = yield* Effect.forkChild(worker.tick)
      yield* passUntil(
        "the job is claimed",
        Effect.map(readJob(job.id), ({ held }) => held),
        "1 seconds",
      )
      yield* stopped(round, "1 seconds")
      const { failures, held, lostWorkers, status } = yield* readJob(job.id)
      assert.deepStrictEqual([status, held, failures, lostWorkers], ["processing", false, 0, 0])
      assert.strictEqual(yield* worker.running, 0)
    }).pipe(within({ sandbox: speaks(() => Effect.never) })),
  )

  it.effect("a job that ends within the drain time is finished, not released", () =>
    Effect.gen(function* () {
      const fiber = yield* running
      const job = yield* submitSpeech("k")
      yield* passTime("1 seconds")
      yield* stopped(fiber, "10 seconds")
      assert.strictEqual((yield* readJob(job.id)).status, "done")
    }).pipe(within({ sandbox: speaks(() => Effect.as(Effect.sleep("5 seconds"), mp3)) })),
  )
})

describe("steps", () => {
  it.effect("a step whose job was taken over is the last: nothing more is bought", () => {
    const answer = Deferred.makeUnsafe<{ readonly text: string }>()
    let replies = 0
    const sandbox: ProviderSet = {
      ...plainProviders,
      transcription: () => Deferred.await(answer),
      reply: () =>
        Effect.sync(() => {
          replies += 1
          return { text: "hi", outputTokens: 1, truncated: false }
        }),
    }
    return Effect.gen(function* () {
      const worker = yield* Worker
      const job = yield* submitVoiceTurn("k")
      const attempt = yield* Effect.forkChild(worker.tick)
      const token = yield* takeOver(job.id)
      // Before the next heartbeat, so that only the refused checkpoint can tell.
      yield* Deferred.succeed(answer, { text: "hello" })
      yield* ended(attempt, "1 seconds")
      assert.strictEqual(replies, 0)
      const after = yield* readJob(job.id)
      assert.deepStrictEqual([after.held, after.token, after.checkpoints], [true, token, {}])
    }).pipe(within({ sandbox }))
  })

  it.effect("a voice turn that fails at its last step does not repeat the first two", () => {
    const calls: Array<string> = []
    let spoke = 0
    const noting = <A>(call: string, answer: A) =>
      Effect.sync(() => {
        calls.push(call)
        return answer
      })
    const sandbox: ProviderSet = {
      transcription: () => noting("transcribe", { text: "hello" }),
      reply: () => noting("reply", { text: "hi", outputTokens: 1, truncated: true }),
      speech: () =>
        Effect.suspend(() => {
          calls.push("speak")
          spoke += 1
          return spoke < 3 ? Effect.fail(unavailable) : Effect.succeed(mp3)
        }),
    }
    return Effect.gen(function* () {
      yield* running
      const job = yield* submitVoiceTurn("k")
      const done = yield* finished(job.id, "1 minutes")
      assert.deepStrictEqual(calls, ["transcribe", "reply", "speak", "speak", "speak"])
      assert.deepStrictEqual([done.status, done.output, done.warningCode], ["done", { text: "hi" }, "output_truncated"])
    }).pipe(within({ sandbox }))
  })
})
