import { assert, describe, it } from "@effect/vitest"
import { JobStore } from "@kiln/core/ports"
import { Deferred, Effect } from "effect"
import { storeDown, storesWith } from "../support/faults.ts"
import { mp3, speaks, within } from "../support/harness.ts"
import { finished, running, submitSpeech } from "../support/jobs.ts"
import { passTime, passUntil, stopped } from "../support/virtualTime.ts"

describe("a worker that is stopped", () => {
  it.effect("releases jobs that it is claiming, at no cost to them", () => {
    let answering = false
    const stores = storesWith(JobStore, (store) => ({
      claimJobs: (request) =>
        Effect.tap(store.claimJobs(request), ({ claims }) => {
          answering = claims.length > 0
          return Effect.sleep("20 millis")
        }),
    }))
    return Effect.gen(function* () {
      const { id } = yield* submitSpeech("k")
      for (let stops = 0; stops < 3; stops++) {
        answering = false
        const worker = yield* running
        yield* passUntil(
          "a claim with the job is on its way",
          Effect.sync(() => answering),
          "1 minutes",
        )
        yield* stopped(worker, "1 minutes")
      }
      yield* running
      const job = yield* finished(id, "1 minutes")
      assert.deepStrictEqual([job.status, job.errorCode, job.lostWorkers], ["done", null, 0])
    }).pipe(
      within({ stores, settings: { drainMs: 0 }, sandbox: speaks(() => Effect.as(Effect.sleep("1 seconds"), mp3)) }),
    )
  })

  it.effect("ends within the drain time and a lease even if a result cannot be stored", () => {
    let tries = 0
    const stores = storesWith(JobStore, () => ({
      completeJobs: () =>
        Effect.suspend(() => {
          tries += 1
          return Effect.fail(storeDown)
        }),
    }))
    return Effect.gen(function* () {
      const worker = yield* running
      yield* submitSpeech("k")
      yield* passUntil(
        "the result is being written",
        Effect.sync(() => tries > 0),
        "10 seconds",
      )
      yield* stopped(worker, "55 seconds")
      assert.isAbove(tries, 1)
    }).pipe(within({ stores }))
  })

  it.effect("ends within a lease even if a claim is never answered", () => {
    const answer = Deferred.makeUnsafe<void>()
    let asked = false
    const stores = storesWith(JobStore, (store) => ({
      claimJobs: (request) => {
        asked = true
        return Effect.andThen(Deferred.await(answer), store.claimJobs(request))
      },
    }))
    return Effect.gen(function* () {
      const worker = yield* running
      // Releases a worker that would otherwise wait indefinitely after the test.
      yield* Effect.addFinalizer(() => Deferred.succeed(answer, undefined))
      yield* passTime("1 seconds")
      assert.isTrue(asked)
      yield* stopped(worker, "30 seconds")
    }).pipe(within({ stores }))
  })
})
