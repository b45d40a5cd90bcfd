import { assert, describe, it } from "@effect/vitest"
import { defaultEngineSettings, type EngineSettings } from "@kiln/core/effect"
import { Switchboard } from "@kiln/core/ports"
import type { ProviderSet } from "@kiln/core/providers"
import { answerLate, defaultAnswers, failBroken, makeFakeProviders, malformed } from "@kiln/testing"
import { Deferred, Effect, Metric } from "effect"
import { within } from "../support/harness.ts"
import { finished, readJob, running, submitSpeech, submitTranscription } from "../support/jobs.ts"
import { comesTrue, passTime, passUntil } from "../support/virtualTime.ts"
import { live, open, settings, submitMany, statusesOf, allDone } from "../support/liveSpeech.ts"

describe("the limits of a provider", () => {
  const bounds = (concurrency: number, callLimitMs = 60_000): Partial<EngineSettings> => ({
    ...settings,
    providers: { ...defaultEngineSettings.providers, speech: { concurrency, callLimitMs } },
  })

  it.effect("limit concurrent calls, and every job gets its turn", () => {
    const fake = makeFakeProviders()
    let atOnce = 0
    let most = 0
    const speech: ProviderSet["speech"] = () =>
      Effect.acquireUseRelease(
        Effect.sync(() => {
          atOnce += 1
          most = Math.max(most, atOnce)
        }),
        () => Effect.as(Effect.sleep("2 seconds"), defaultAnswers.speech),
        () => Effect.sync(() => void atOnce--),
      )
    return Effect.gen(function* () {
      yield* open
      const jobs = yield* submitMany(12)
      yield* running
      assert.isTrue(yield* comesTrue(allDone(jobs), "60 seconds"))
      assert.strictEqual(most, 2)
    }).pipe(within({ live: { ...fake.providers, speech }, settings: bounds(2) }))
  })

  it.effect("for an unknown name prevent the worker from starting, and suggest the likely name", () =>
    Effect.gen(function* () {
      const misspelled = {
        ...settings,
        providers: { ...defaultEngineSettings.providers, speach: { concurrency: 1, callLimitMs: 60_000 } },
      }
      const exit = yield* Effect.exit(Effect.void.pipe(within({ settings: misspelled })))
      assert.include(String(exit), 'unknown provider "speach" in settings.providers; did you mean "speech"?')
    }),
  )

  it.effect("leave the worker's other slots to other jobs: only as many wait as can run next", () => {
    const fake = makeFakeProviders()
    fake.usually("speech", answerLate(50_000, defaultAnswers.speech))
    return Effect.gen(function* () {
      yield* open
      // Another kind without limits, which does not use their slots.
      const board = yield* Switchboard
      yield* board.setPrice({ name: "svc-image", currency: "usd", unitAmounts: { images: "1" } })
      yield* board.activatePrice("svc-image", true)
      yield* board.setSwitch("images", true)
      const slow = yield* submitMany(20)
      yield* running
      yield* passTime("10 seconds")
      const others = yield* Effect.forEach(Array.from({ length: 12 }), (_, n) => submitTranscription(`t${n}`, live))
      assert.isTrue(yield* comesTrue(allDone(others), "10 seconds"))
      const inProgress = (yield* statusesOf(slow)).filter((status) => status === "processing")
      assert.strictEqual(inProgress.length, 2)
      assert.isTrue(yield* comesTrue(allDone(slow), "1100 seconds"))
    }).pipe(within({ live: fake.providers, settings: bounds(1) }))
  })

  it.effect("end a call that takes too long: it counts as a failure and is interrupted", () => {
    const fake = makeFakeProviders()
    fake.script("speech", answerLate(61_000, defaultAnswers.speech))
    return Effect.gen(function* () {
      yield* open
      const job = yield* submitSpeech("k", live)
      yield* running
      assert.strictEqual((yield* finished(job.id, "70 seconds", live)).status, "done")
      assert.deepStrictEqual(
        fake.callsOf("speech").map(({ outcome }) => outcome),
        ["interrupted", "answered"],
      )
      assert.strictEqual((yield* readJob(job.id, live)).failures, 1)
    }).pipe(within({ live: fake.providers, settings: bounds(0) }))
  })

  it.effect("hold for a provider that ignores interruption: it delays no other job", () => {
    const fake = makeFakeProviders()
    let calls = 0
    const speech: ProviderSet["speech"] = (request, call) =>
      Effect.suspend(() => {
        calls += 1
        return calls === 1
          ? Effect.uninterruptible(Effect.as(Effect.sleep("20 minutes"), defaultAnswers.speech))
          : fake.providers.speech(request, call)
      })
    return Effect.gen(function* () {
      yield* open
      const job = yield* submitSpeech("k", live)
      yield* running
      assert.strictEqual((yield* finished(job.id, "70 seconds", live)).status, "done")
      assert.strictEqual(calls, 2)
      yield* passTime("30 minutes")
    }).pipe(within({ live: { ...fake.providers, speech }, settings: bounds(0) }))
  })

  it.effect("check the gate again after the wait: a provider switched off meanwhile is not called", () => {
    const fake = makeFakeProviders()
    return Effect.gen(function* () {
      yield* open
      const go = yield* Deferred.make<void>()
      let calls = 0
      const board = yield* Switchboard
      const jobs = yield* submitMany(2)
      speak = () =>
        Effect.suspend(() => {
          calls += 1
          return Effect.as(Deferred.await(go), defaultAnswers.speech)
        })
      yield* running
      yield* passUntil(
        "the first is called",
        Effect.sync(() => calls === 1),
        "5 seconds",
      )
      yield* passTime("2 seconds")
      yield* board.setSwitch("ai", false)
      yield* passTime("1 seconds")
      yield* Deferred.succeed(go, undefined)
      yield* passTime("10 seconds")
      assert.strictEqual(calls, 1)
      assert.deepStrictEqual((yield* statusesOf(jobs)).toSorted(), ["done", "processing"])
      yield* board.setSwitch("ai", true)
      assert.isTrue(yield* comesTrue(allDone(jobs), "60 seconds"))
    }).pipe(within({ live: { ...fake.providers, speech: (...given) => speak(...given) }, settings: bounds(1) }))
  })
  let speak: NonNullable<ProviderSet["speech"]>
})

describe("the metrics of providers", () => {
  it.effect("count calls by outcome and show paused providers", () => {
    const fake = makeFakeProviders()
    const valueOf = (id: string, attributes: Readonly<Record<string, string>>) =>
      Effect.map(Metric.snapshot, (all) => {
        const found = all.find(
          (metric) =>
            metric.id === id &&
            Object.entries(attributes).every(([name, value]) => metric.attributes?.[name] === value),
        )
        return found === undefined
          ? undefined
          : "count" in found.state
            ? Number(found.state.count)
            : Number(Reflect.get(found.state, "value"))
      })
    return Effect.gen(function* () {
      yield* open
      const answered = valueOf("kiln_provider_calls_total", { provider: "speech", outcome: "answered" })
      const before = (yield* answered) ?? 0
      const job = yield* submitSpeech("a", live)
      yield* running
      yield* finished(job.id, "5 seconds", live)
      assert.strictEqual(yield* answered, before + 1)
      assert.strictEqual(yield* valueOf("kiln_provider_paused", { provider: "speech", reason: "quota" }), 0)
      // An invalid answer counts as a failure, even though the provider returned it.
      const invalid = valueOf("kiln_provider_calls_total", { provider: "speech", outcome: "invalid" })
      const invalidBefore = (yield* invalid) ?? 0
      fake.script("speech", malformed({ data: "no bytes" }))
      const second = yield* submitSpeech("b", live)
      yield* finished(second.id, "10 seconds", live)
      assert.deepStrictEqual([yield* invalid, yield* answered], [invalidBefore + 1, before + 2])
      fake.usually("speech", failBroken({ reason: "quota" }))
      yield* submitSpeech("c", live)
      yield* passTime("5 seconds")
      assert.strictEqual(yield* valueOf("kiln_provider_paused", { provider: "speech", reason: "quota" }), 1)
    }).pipe(within({ live: fake.providers, settings }))
  })
})
