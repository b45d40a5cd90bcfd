import { assert, describe, it } from "@effect/vitest"
import { defaultEngineSettings, Engine } from "@kiln/core/effect"
import { Switchboard } from "@kiln/core/ports"
import {
  type GeneratedFile,
  providerBroken,
  type ProviderFailure,
  providerRefused,
  type ProviderSet,
  providerUnavailable,
  resultInvalid,
} from "@kiln/core/providers"
import { defaultCircuitLimits, Worker } from "@kiln/core/worker"
import { answer, defaultAnswers, failBroken, hang, makeFakeProviders } from "@kiln/testing"
import { Effect } from "effect"
import { storesWith } from "../support/faults.ts"
import { grantOf, kind, within } from "../support/harness.ts"
import { finished, readJob, running, submitSpeech, submitVoiceTurn } from "../support/jobs.ts"
import { comesTrue, passTime, passUntil } from "../support/virtualTime.ts"
import { live, open, settings, submitMany, statusesOf, allDone, standingOf } from "../support/liveSpeech.ts"

describe("a provider that is broken", () => {
  it.effect("is called once and then paused: no job pays for it, and all finish once it is fixed", () => {
    const fake = makeFakeProviders()
    let mended = false
    const speak: NonNullable<ProviderSet["speech"]> = (request, call) =>
      mended
        ? fake.providers.speech(request, call)
        : Effect.andThen(fail, providerBroken("quota", "429 insufficient_quota"))
    let asked = 0
    // Delayed, so that several calls would overlap if the guard allowed them.
    const fail = Effect.andThen(
      Effect.sync(() => void asked++),
      Effect.sleep("200 millis"),
    )
    return Effect.gen(function* () {
      yield* open
      const jobs = yield* submitMany(20)
      yield* running
      yield* passTime("59 seconds")
      // Only the jobs that the worker had claimed together.
      assert.isAtMost(asked, defaultEngineSettings.concurrency)
      assert.deepStrictEqual(yield* standingOf("speech"), {
        provider: "speech",
        status: "paused",
        reason: "quota",
        since: 200,
        nextTryAt: 60_200,
      })
      const before = asked
      yield* passTime("10 minutes")
      // One call finds out at the end of each pause: 60, 120, 120, … seconds.
      assert.isAtMost(asked - before, 6)
      assert.isAtLeast(asked - before, 4)
      let attempts = 0
      for (const { id } of jobs) {
        attempts += (yield* readJob(id, live)).attempts
        const { failures, lostWorkers, status } = yield* readJob(id, live)
        assert.deepStrictEqual({ failures, lostWorkers }, { failures: 0, lostWorkers: 0 })
        assert.include(["queued", "processing"], status)
      }
      // Jobs stay queued during the pause instead of being claimed and released; one is claimed as a test call.
      assert.strictEqual(attempts, asked)
      mended = true
      assert.isTrue(yield* comesTrue(allDone(jobs), "5 minutes"))
      assert.strictEqual((yield* standingOf("speech"))?.status, "ready")
      // The first successful call ended the pause: no job was called twice.
      assert.strictEqual(fake.callsOf("speech").length, 20)
    }).pipe(within({ live: { ...fake.providers, speech: speak }, settings }))
  })

  it.effect("is recorded in the store immediately, and so is its recovery", () => {
    let broken = true
    const fake = makeFakeProviders()
    const speech: ProviderSet["speech"] = (request, call) =>
      broken ? Effect.fail(providerBroken("configuration", "401")) : fake.providers.speech(request, call)
    return Effect.gen(function* () {
      yield* open
      const board = yield* Switchboard
      const published = Effect.map(board.listWorkers, (workers) =>
        workers
          .flatMap(({ providers }) => providers)
          .filter(({ provider }) => provider === "speech")
          .map(({ reason, status }) => ({ reason, status })),
      )
      const job = yield* submitSpeech("k", live)
      const says = (status: string) =>
        Effect.map(published, (all) => all.length > 0 && all.every((one) => one.status === status))
      yield* passUntil("it is paused", says("paused"), "3 seconds")
      assert.deepStrictEqual(yield* published, [{ reason: "configuration", status: "paused" }])
      broken = false
      assert.strictEqual((yield* finished(job.id, "2 minutes", live)).status, "done")
      yield* passUntil("it works again", says("ready"), "1 seconds")
    }).pipe(within({ live: { ...fake.providers, speech }, settings, worker: "running" }))
  })

  it.effect("does not delay jobs that do not need it, or sandbox jobs", () => {
    const fake = makeFakeProviders()
    return Effect.gen(function* () {
      yield* open
      const spoken = yield* submitSpeech("live", live)
      yield* running
      yield* passTime("5 seconds")
      assert.strictEqual((yield* standingOf("speech"))?.status, "paused")
      const sandboxed = yield* submitSpeech("sandbox")
      assert.strictEqual((yield* finished(sandboxed.id, "5 seconds")).status, "done")
      assert.notStrictEqual((yield* readJob(spoken.id, live)).status, "done")
    }).pipe(
      within({
        live: { ...fake.providers, speech: () => Effect.fail(providerBroken("quota", "x")) },
        sandbox: fake.providers,
        settings,
      }),
    )
  })

  it.effect("in the middle of a voice turn postpones it, and finished steps are not repeated", () => {
    const fake = makeFakeProviders()
    let broken = true
    const reply: ProviderSet["reply"] = (request, call) =>
      broken ? Effect.fail(providerBroken("quota", "x")) : fake.providers.reply(request, call)
    return Effect.gen(function* () {
      yield* open
      const job = yield* submitVoiceTurn("k", live)
      yield* running
      yield* passTime("30 seconds")
      broken = false
      assert.strictEqual((yield* finished(job.id, "2 minutes", live)).status, "done")
      assert.strictEqual(fake.callsOf("transcription").length, 1)
      assert.strictEqual((yield* readJob(job.id, live)).failures, 0)
    }).pipe(within({ live: { ...fake.providers, reply }, settings }))
  })

  it.effect("is reported as paused until a call succeeds, even while no job calls it", () => {
    const fake = makeFakeProviders()
    fake.script("speech", failBroken({ reason: "quota" }))
    return Effect.gen(function* () {
      yield* open
      const job = yield* submitSpeech("k", live)
      yield* running
      // Its time has come after a minute, and the job comes back after one and a half.
      yield* passTime("80 seconds")
      assert.strictEqual((yield* standingOf("speech"))?.reason, "quota")
      assert.strictEqual((yield* finished(job.id, "1 minutes", live)).status, "done")
      assert.strictEqual((yield* standingOf("speech"))?.status, "ready")
    }).pipe(within({ live: fake.providers, settings }))
  })

  it.effect("for one job alone, such as one that exceeds the remaining quota, stays available to others", () => {
    const fake = makeFakeProviders()
    const greedy = "a very long text"
    const speech: ProviderSet["speech"] = (request, call) =>
      request.text === greedy ? Effect.fail(providerBroken("quota", "402")) : fake.providers.speech(request, call)
    return Effect.gen(function* () {
      yield* open
      const engine = yield* Engine
      yield* engine.createJob(grantOf(live), kind("speech_synthesis"), { input: greedy }, "greedy")
      const jobs = yield* submitMany(20)
      yield* running
      assert.isTrue(yield* comesTrue(allDone(jobs), "5 minutes"))
      let pausedSeconds = 0
      for (let second = 0; second < 1_800; second++) {
        yield* passTime("1 seconds")
        if ((yield* standingOf("speech"))?.status === "paused") pausedSeconds += 1
        if (second % 60 === 0) jobs.push(yield* submitSpeech(`later${second}`, live))
      }
      // A pause of a minute each time that job comes back, which is rarer and rarer.
      assert.isAtMost(pausedSeconds, 900)
      assert.isTrue(yield* comesTrue(allDone(jobs), "2 minutes"))
    }).pipe(within({ live: { ...fake.providers, speech }, settings }))
  })

  it.effect("that recovers while the store is being updated: the recovery is recorded immediately, too", () => {
    const fake = makeFakeProviders()
    fake.script("speech", failBroken())
    const slowly = storesWith(Switchboard, (board) => ({
      publishWorker: (worker) =>
        worker.providers.some(({ status }) => status === "paused")
          ? Effect.delay(board.publishWorker(worker), "2 seconds")
          : board.publishWorker(worker),
    }))
    return Effect.gen(function* () {
      yield* open
      const board = yield* Switchboard
      const job = yield* submitSpeech("k", live)
      assert.strictEqual((yield* finished(job.id, "5 seconds", live)).status, "done")
      yield* passTime("4 seconds")
      const standings = (yield* board.listWorkers).flatMap(({ providers }) => providers)
      assert.deepStrictEqual(
        standings.filter(({ status }) => status === "paused"),
        [],
      )
    }).pipe(
      within({
        live: fake.providers,
        settings: { circuit: { ...defaultCircuitLimits, brokenPauseMs: 200, brokenPauseMaxMs: 200 } },
        stores: slowly,
        worker: "running",
      }),
    )
  })
})

describe("a provider that fails", () => {
  it.effect("by hanging delays no other job, and no job fails for having waited for it", () => {
    const fake = makeFakeProviders()
    fake.usually("speech", hang)
    return Effect.gen(function* () {
      yield* open
      const jobs = yield* submitMany(40)
      yield* running
      const worker = yield* Worker
      let full = 0
      const minutes = 180
      for (let minute = 0; minute < minutes; minute++) {
        yield* passTime("1 minutes")
        if ((yield* worker.running) === defaultEngineSettings.concurrency) full += 1
      }
      // Only until it is found to fail.
      assert.isAtMost(full, 15)
      fake.usually("speech", answer(defaultAnswers.speech))
      assert.isTrue(
        yield* comesTrue(
          Effect.map(statusesOf(jobs), (all) => !all.includes("processing")),
          "20 minutes",
        ),
      )
      const ends = yield* Effect.forEach(jobs, ({ id }) => readJob(id, live))
      assert.deepStrictEqual(
        ends.filter(({ errorCode }) => errorCode === "job_timeout"),
        [],
      )
    }).pipe(
      within({
        live: fake.providers,
        // Each wait for the one call that finds out would take a third of the run limit, or nearly so.
        settings: {
          ...settings,
          providers: { ...defaultEngineSettings.providers, speech: { concurrency: 0, callLimitMs: 540_000 } },
        },
      }),
    )
  })

  it.effect(
    "is paused after a few consecutive failures, so an outage does not use up the attempts of every job",
    () => {
      const fake = makeFakeProviders()
      let down = true
      let asked = 0
      const speech: ProviderSet["speech"] = (request, call) =>
        Effect.suspend(() => {
          asked += 1
          return down ? Effect.fail(providerUnavailable("503")) : fake.providers.speech(request, call)
        })
      return Effect.gen(function* () {
        yield* open
        const jobs = yield* submitMany(60)
        yield* running
        yield* passTime("2 minutes")
        const askedMeanwhile = asked
        down = false
        yield* passTime("5 minutes")
        const failed = (yield* statusesOf(jobs)).filter((status) => status !== "done").length
        // Without a pause, 60 jobs would have failed for good within some seconds, in 180 calls.
        assert.isAtMost(askedMeanwhile, 16)
        assert.isAtMost(failed, 4)
      }).pipe(within({ live: { ...fake.providers, speech }, settings }))
    },
  )

  const html = { data: new TextEncoder().encode("<html>no</html>"), mediaType: "audio/mpeg" }
  it.effect.each<[why: string, said: Effect.Effect<GeneratedFile, ProviderFailure>]>([
    ["an invalid answer", Effect.succeed(html)],
    ["an answer that the provider reports as invalid", Effect.fail(resultInvalid("empty"))],
    ["a refusal", Effect.fail(providerRefused("content", "moderation_blocked"))],
  ])("for a reason that the request may cause is not paused, so no caller can pause it for others: %s", ([, said]) => {
    const fake = makeFakeProviders()
    const speech: ProviderSet["speech"] = () => said
    return Effect.gen(function* () {
      yield* open
      const jobs = yield* submitMany(10)
      yield* running
      yield* passTime("2 minutes")
      assert.deepStrictEqual(new Set(yield* statusesOf(jobs)), new Set(["failed"]))
      assert.strictEqual((yield* standingOf("speech"))?.status, "ready")
    }).pipe(within({ live: { ...fake.providers, speech }, settings }))
  })
})
