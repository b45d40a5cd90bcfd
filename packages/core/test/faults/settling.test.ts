import { assert, describe, it } from "@effect/vitest"
import { type AttemptError, type JobKind, JobKinds } from "@kiln/core/kinds"
import { type AttemptWait, billingOf } from "@kiln/core/domain"
import { type Deferral, JobStore } from "@kiln/core/ports"
import { ProviderFailure, ProviderPostponed } from "@kiln/core/providers"
import { Effect } from "effect"
import { ProviderPaused } from "../../src/providers/circuitBreaker.ts"
import { ProviderBroken } from "../../src/providers/ProviderError.ts"
import { blobsDown, insteadOfFirst, storeDown, storesWith } from "../support/faults.ts"
import { kind, mp3, plainProviders, principal, speaks, within } from "../support/harness.ts"
import { finished, openBoard, running, submitSpeech, submitTranscription, submitVoiceTurn } from "../support/jobs.ts"
import { passTime } from "../support/virtualTime.ts"

const live = principal("live")

describe("a job is settled however its attempt ends", () => {
  it.effect("usage that cannot be billed fails the job and does not count as a lost worker", () => {
    const speech = kind("speech_synthesis")
    const miscounting: JobKind = {
      ...speech,
      run: (attempt) => Effect.map(speech.run(attempt), (result) => ({ ...result, usage: { input_characters: 2.5 } })),
    }
    return Effect.gen(function* () {
      yield* openBoard({ input_characters: "0.1" })
      const { id } = yield* submitSpeech("k", live)
      yield* running
      const job = yield* finished(id, "5 minutes", live)
      assert.deepStrictEqual([job.status, job.errorCode, job.lostWorkers], ["failed", "internal_error", 0])
    }).pipe(within({ live: plainProviders }), Effect.provideService(JobKinds, [miscounting]))
  })

  it.effect("a result that the store rejects fails the job and is not requested again", () => {
    let bought = 0
    const sandbox = speaks(() =>
      Effect.sync(() => {
        bought += 1
        return mp3
      }),
    )
    const stores = storesWith(JobStore, () => ({ completeJobs: () => Effect.die(new TypeError("constraint")) }))
    return Effect.gen(function* () {
      yield* running
      const { id } = yield* submitSpeech("k")
      const job = yield* finished(id, "5 minutes")
      assert.deepStrictEqual([job.status, job.errorCode, job.lostWorkers], ["failed", "internal_error", 0])
      assert.strictEqual(bought, 1)
    }).pipe(within({ stores, sandbox }))
  })

  it.effect("a provider that interrupts itself has failed, and is called three times like any other", () => {
    let calls = 0
    const sandbox = speaks(() =>
      Effect.suspend(() => {
        calls += 1
        // Without a limit, a provider called indefinitely would also keep the test from ending.
        return calls > 200 ? Effect.succeed(mp3) : Effect.interrupt
      }),
    )
    return Effect.gen(function* () {
      yield* running
      const { id } = yield* submitSpeech("k")
      const job = yield* finished(id, "1 minutes")
      assert.deepStrictEqual([job.status, job.errorCode, calls], ["failed", "internal_error", 3])
    }).pipe(within({ sandbox }))
  })

  it.effect("a kind that fails with something else than its errors has failed, and is tried three times", () => {
    const failing: JobKind = { ...kind("speech_synthesis"), run: () => Effect.fail({ _tag: "Foreign" } as never) }
    return Effect.gen(function* () {
      yield* running
      const { id } = yield* submitSpeech("k")
      const job = yield* finished(id, "1 minutes")
      assert.deepStrictEqual([job.status, job.errorCode, job.attempts], ["failed", "internal_error", 3])
    }).pipe(within(), Effect.provideService(JobKinds, [failing]))
  })

  it.effect("a measurement that is not a number counts as missing: the declared length is billed", () =>
    Effect.gen(function* () {
      yield* openBoard({ input_audio_seconds: "1" })
      const { id } = yield* submitTranscription("k", live)
      yield* running
      const job = yield* finished(id, "5 minutes", live)
      assert.deepStrictEqual([job.status, job.attempts, job.lostWorkers], ["done", 1, 0])
      assert.strictEqual(billingOf(job, "usd").amount, "3")
    }).pipe(within({ live: plainProviders, seconds: Number.NaN })),
  )

  it.effect("a Retry-After that is not a number is ignored", () => {
    let calls = 0
    const busy = { errorCode: "provider_unavailable", retry: true, detail: "429" } as const
    const sandbox = speaks(() =>
      Effect.suspend(() => {
        calls += 1
        return calls === 1
          ? Effect.fail(new ProviderFailure({ ...busy, retryAfterMs: Number.NaN }))
          : Effect.succeed(mp3)
      }),
    )
    return Effect.gen(function* () {
      yield* running
      const { id } = yield* submitSpeech("k")
      assert.deepStrictEqual([(yield* finished(id, "10 minutes")).status, calls], ["done", 2])
    }).pipe(within({ sandbox }))
  })

  it.effect("the result of a step that could not be stored immediately is stored later, not requested again", () => {
    let bought = 0
    const transcribe = () =>
      Effect.sync(() => {
        bought += 1
        return { text: "hello" }
      })
    const fail = insteadOfFirst(Effect.fail(storeDown))
    const stores = storesWith(JobStore, (store) => ({ checkpointJobs: (items) => fail(store.checkpointJobs(items)) }))
    return Effect.gen(function* () {
      const { id } = yield* submitVoiceTurn("k")
      yield* running
      assert.deepStrictEqual([(yield* finished(id, "1 minutes")).status, bought], ["done", 1])
    }).pipe(within({ stores, sandbox: { ...plainProviders, transcription: transcribe } }))
  })

  it.effect.each<[AttemptError, AttemptWait]>([
    [new ProviderPostponed({ delayMs: 60_000 }), { reason: "provider", subject: "speech", cause: "postponed" }],
    [new ProviderPaused({ provider: "other" }), { reason: "provider", subject: "other", cause: "paused" }],
    [new ProviderBroken({ reason: "quota", detail: "402" }), { reason: "provider", subject: "speech", cause: "quota" }],
    [storeDown, { reason: "store", subject: null, cause: null }],
    [blobsDown, { reason: "blobs", subject: null, cause: null }],
  ])("a job that must wait says for what: %s", ([error, wait]) => {
    const deferrals: Array<Deferral> = []
    const stores = storesWith(JobStore, (store) => ({
      deferJobs: (items) => {
        deferrals.push(...items)
        return store.deferJobs(items)
      },
    }))
    const waiting: JobKind = { ...kind("speech_synthesis"), run: () => Effect.fail(error) }
    return Effect.gen(function* () {
      yield* running
      yield* submitSpeech("k")
      yield* passTime("2 seconds")
      assert.deepInclude(deferrals[0], { countsAsFailure: false, wait })
    }).pipe(within({ stores }), Effect.provideService(JobKinds, [waiting]))
  })
})
