import { assert, describe, it } from "@effect/vitest"
import { effectProvider } from "@kiln/core/providers"
import { defaultCircuitLimits, Worker } from "@kiln/core/worker"
import { answer, type Behavior, defaultAnswers, failBroken, failWith, hang, makeFakeProviders } from "@kiln/testing"
import { Effect } from "effect"
import { within } from "../support/harness.ts"
import { finished, readJob, running, submitSpeech, submitTranscription, submitVoiceTurn } from "../support/jobs.ts"
import { comesTrue, passTime, passUntil, stopped } from "../support/virtualTime.ts"
import { live, open, settings, submitMany, standingOf } from "../support/liveSpeech.ts"
import { answerFromBefore } from "./support/answerFromBefore.ts"

describe("the pause of a provider", () => {
  const broken = failBroken({ reason: "quota" })

  it.effect("is not ended by the response to an earlier call", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* answerFromBefore, { job: "done", provider: "paused" })
    }),
  )

  it.effect("is not ended by a test call that was stopped", () => {
    const fake = makeFakeProviders()
    fake.script("speech", broken, hang)
    return Effect.gen(function* () {
      yield* open
      const worker = yield* Worker
      yield* submitMany(1)
      const first = yield* Effect.forkDetach(worker.run)
      yield* passUntil(
        "it is tried again",
        Effect.sync(() => fake.callsOf("speech").length === 2),
        "3 minutes",
      )
      yield* stopped(first, "1 minutes")
      assert.strictEqual(fake.callsOf("speech")[1]?.outcome, "interrupted")
      assert.strictEqual((yield* standingOf("speech"))?.status, "paused")
      yield* running
      assert.isTrue(
        yield* comesTrue(
          Effect.map(standingOf("speech"), (one) => one?.status === "ready"),
          "3 minutes",
        ),
      )
    }).pipe(within({ live: fake.providers, settings: { ...settings, drainMs: 0 } }))
  })

  it.effect.each<[why: string, failures: ReadonlyArray<Behavior<never>>]>([
    ["is broken", [failBroken({ retryAfterMs: 110_000 })]],
    ["fails", Array.from({ length: 3 }, () => failWith({ retryAfterMs: 38_000 }))],
  ])("is as long as the provider asks if it %s", ([, failures]) => {
    const fake = makeFakeProviders()
    fake.script("speech", ...failures)
    const asksMs = failures.length === 1 ? 110_000 : 38_000
    return Effect.gen(function* () {
      yield* open
      yield* submitMany(failures.length)
      yield* running
      yield* passUntil(
        "it is paused",
        Effect.map(standingOf("speech"), (one) => one?.status === "paused"),
        "5 seconds",
      )
      // Others, which have not been told to wait.
      yield* submitMany(2, "other")
      yield* passTime(asksMs - 2_000)
      assert.strictEqual(fake.callsOf("speech").length, failures.length)
      yield* passTime("5 seconds")
      assert.isAbove(fake.callsOf("speech").length, failures.length)
    }).pipe(within({ live: fake.providers, settings }))
  })

  it.effect("costs a job that meets it in the middle of its work no failure", () => {
    const fake = makeFakeProviders()
    fake.usually("speech", broken)
    const transcription = effectProvider("transcription", () => Effect.as(Effect.sleep("5 seconds"), { text: "hello" }))
    return Effect.gen(function* () {
      yield* open
      yield* running
      const turn = yield* submitVoiceTurn("turn", live)
      yield* passTime("2 seconds")
      const other = yield* submitSpeech("other", live)
      yield* passTime("5 seconds")
      assert.strictEqual(fake.callsOf("speech").length, 1)
      assert.deepInclude(yield* readJob(turn.id, live), { status: "processing", attempts: 1, failures: 0 })
      fake.usually("speech", answer(defaultAnswers.speech))
      for (const { id } of [turn, other])
        assert.deepInclude(yield* finished(id, "5 minutes", live), { status: "done", failures: 0 })
    }).pipe(within({ live: { ...fake.providers, transcription }, settings }))
  })

  it.effect("ends for an idle worker on time, not at its next poll, and separately for each provider", () => {
    const fake = makeFakeProviders()
    fake.usually("speech", broken)
    fake.usually("transcription", failBroken({ retryAfterMs: 600_000 }))
    const pauses = { ...defaultCircuitLimits, brokenPauseMs: 61_000, brokenPauseMaxMs: 600_000 }
    return Effect.gen(function* () {
      yield* open
      yield* submitSpeech("a", live)
      yield* submitTranscription("b", live)
      yield* running
      yield* passUntil(
        "both are paused",
        Effect.map(Effect.all([standingOf("speech"), standingOf("transcription")]), (both) =>
          both.every((one) => one?.status === "paused"),
        ),
        "5 seconds",
      )
      const job = yield* submitSpeech("c", live)
      fake.usually("speech", answer(defaultAnswers.speech))
      yield* passTime("59 seconds")
      assert.strictEqual((yield* readJob(job.id, live)).status, "queued")
      assert.strictEqual((yield* finished(job.id, "4 seconds", live)).status, "done")
      // A voice turn needs both, and one of them is still paused.
      const turn = yield* submitVoiceTurn("d", live)
      yield* passTime("60 seconds")
      assert.strictEqual((yield* readJob(turn.id, live)).attempts, 0)
    }).pipe(
      // This worker rests for ten minutes where it knows of nothing to come.
      within({
        live: fake.providers,
        settings: { circuit: pauses, pollIntervalMs: 600_000, idlePollIntervalMs: 600_000, leaseDurationMs: 600_000 },
      }),
    )
  })
})
