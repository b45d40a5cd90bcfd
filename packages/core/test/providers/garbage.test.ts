import { assert, describe, it } from "@effect/vitest"
import { answer, defaultAnswers, malformed, makeFakeProviders } from "@kiln/testing"
import { Effect } from "effect"
import { principal, within } from "../support/harness.ts"
import { readJob, running, submitSpeech } from "../support/jobs.ts"
import { open, standingOf } from "../support/liveSpeech.ts"
import { comesTrue, passTime } from "../support/virtualTime.ts"

/** Submits live jobs, one after the other of each of these keys. */
const submitOf = (keys: ReadonlyArray<string>, count: number) =>
  Effect.forEach(Array.from({ length: count }), (_, n) => {
    const owner = principal("live", keys[n % keys.length])
    return Effect.map(submitSpeech(`k${n}`, owner), ({ id }) => ({ id, owner }))
  })

type Submitted = Effect.Success<ReturnType<typeof submitOf>>
const statusesOf = (jobs: Submitted) =>
  Effect.forEach(jobs, ({ id, owner }) => Effect.map(readJob(id, owner), ({ status }) => status))

describe("a provider that returns garbage", () => {
  it.effect("to several callers is paused, so their jobs wait and are done when it works again", () => {
    const fake = makeFakeProviders()
    fake.usually("speech", malformed({ data: "none" }))
    return Effect.gen(function* () {
      yield* open
      yield* running
      const jobs = yield* submitOf(["a", "b", "c", "d"], 34)
      yield* passTime("30 seconds")
      assert.strictEqual((yield* standingOf("speech"))?.status, "paused")
      assert.notInclude(yield* statusesOf(jobs), "failed")
      fake.usually("speech", answer(defaultAnswers.speech))
      const areDone = Effect.map(statusesOf(jobs), (statuses) => statuses.every((status) => status === "done"))
      assert.isTrue(yield* comesTrue(areDone, "2 minutes"))
    }).pipe(within({ live: fake.providers }))
  })

  it.effect("to one caller is not paused: the request may be the reason", () => {
    const fake = makeFakeProviders()
    fake.usually("speech", malformed({ data: "none" }))
    return Effect.gen(function* () {
      yield* open
      yield* running
      const jobs = yield* submitOf(["a"], 12)
      const areFailed = Effect.map(statusesOf(jobs), (statuses) => statuses.every((status) => status === "failed"))
      assert.isTrue(yield* comesTrue(areFailed, "2 minutes"))
      assert.strictEqual((yield* standingOf("speech"))?.status, "ready")
    }).pipe(within({ live: fake.providers }))
  })
})
