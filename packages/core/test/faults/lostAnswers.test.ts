import { assert, describe, it } from "@effect/vitest"
import { type BlobStore, JobStore } from "@kiln/core/ports"
import { ProviderFailure, type ProviderSet } from "@kiln/core/providers"
import { Effect, type Layer } from "effect"
import { blobsDown, blobsWith, insteadOfFirst, storeDown, storesWith } from "../support/faults.ts"
import { mp3, speaks, within } from "../support/harness.ts"
import { finished, running, submitSpeech } from "../support/jobs.ts"
import { passTime } from "../support/virtualTime.ts"

type Ending = "completeJobs" | "failJobs" | "deferJobs"

/**
 * A store that executes the first call of this verb but loses its response. Counts the calls that a worker makes because of
 * that.
 */
const losingAnswerOf = (verb: Ending) => {
  const asked = { [verb]: 0, releaseJobs: 0, findOrphans: 0 }
  const lose = insteadOfFirst(Effect.fail(storeDown))
  const stores = storesWith(JobStore, (store) => {
    const counting =
      <In, Out>(name: Ending | "releaseJobs" | "findOrphans", call: (items: In) => Out) =>
      (items: In) => {
        asked[name] = (asked[name] ?? 0) + 1
        return call(items)
      }
    const losing =
      <In, Out, E>(call: (items: In) => Effect.Effect<Out, E>) =>
      (items: In) =>
        Effect.flatMap(call(items), (outcome) => lose(Effect.succeed(outcome)))
    return {
      releaseJobs: counting("releaseJobs", store.releaseJobs),
      findOrphans: counting("findOrphans", store.findOrphans),
      ...(verb === "completeJobs" ? { completeJobs: counting(verb, losing(store.completeJobs)) } : {}),
      ...(verb === "failJobs" ? { failJobs: counting(verb, losing(store.failJobs)) } : {}),
      ...(verb === "deferJobs" ? { deferJobs: counting(verb, losing(store.deferJobs)) } : {}),
    }
  })
  return { asked, stores }
}

/** Runs one speech job, and continues for longer than a lease. */
const workedOff = (options: {
  readonly stores: ReturnType<typeof losingAnswerOf>["stores"]
  readonly sandbox?: ProviderSet
  readonly blobs?: Layer.Layer<BlobStore>
}) =>
  Effect.gen(function* () {
    yield* running
    const { id } = yield* submitSpeech("k")
    const job = yield* finished(id, "1 minutes")
    yield* passTime("1 minutes")
    return job
  }).pipe(within(options))

const speaking = (attempts: (n: number) => ReturnType<NonNullable<ProviderSet["speech"]>>) => {
  let calls = 0
  return speaks(() => Effect.suspend(() => attempts((calls += 1))))
}

describe("an end whose response was lost is written again and stays the same", () => {
  it.effect("a completion: nothing is released, and no orphans are searched", () => {
    const { asked, stores } = losingAnswerOf("completeJobs")
    return Effect.gen(function* () {
      const job = yield* workedOff({ stores })
      assert.deepStrictEqual([job.status, job.attempts, job.files.length], ["done", 1, 1])
      assert.deepStrictEqual(asked, { completeJobs: 2, releaseJobs: 0, findOrphans: 0 })
    })
  })

  it.effect("a failure", () => {
    const { asked, stores } = losingAnswerOf("failJobs")
    const rejected = new ProviderFailure({ errorCode: "content_rejected", retry: false, detail: "no" })
    return Effect.gen(function* () {
      const job = yield* workedOff({ stores, sandbox: speaking(() => Effect.fail(rejected)) })
      assert.deepStrictEqual([job.status, job.errorCode, job.attempts], ["failed", "content_rejected", 1])
      assert.deepStrictEqual(asked, { failJobs: 2, releaseJobs: 0, findOrphans: 0 })
    })
  })

  it.effect("a deferral: one failure is counted", () => {
    const { asked, stores } = losingAnswerOf("deferJobs")
    // Long enough for the second try to come before the next attempt.
    const busy = new ProviderFailure({
      errorCode: "provider_unavailable",
      retry: true,
      detail: "429",
      retryAfterMs: 5_000,
    })
    const sandbox = speaking((n) => (n === 1 ? Effect.fail(busy) : Effect.succeed(mp3)))
    return Effect.gen(function* () {
      const job = yield* workedOff({ stores, sandbox })
      assert.deepStrictEqual([job.status, job.attempts, job.failures, job.lostWorkers], ["done", 2, 1, 0])
      assert.deepStrictEqual(asked, { deferJobs: 2, releaseJobs: 0, findOrphans: 0 })
    })
  })

  it.effect(
    "a postponement: a result that does not fit on the disk is not requested again until there is space",
    () => {
      const { stores } = losingAnswerOf("deferJobs")
      let bought = 0
      const sandbox = speaking((n) => {
        bought = n
        return Effect.succeed(mp3)
      })
      const blobs = blobsWith(() => ({ put: () => Effect.fail(blobsDown) }))
      return Effect.gen(function* () {
        const job = yield* workedOff({ stores, sandbox, blobs })
        assert.deepStrictEqual([job.status, bought], ["processing", 1])
      })
    },
  )
})
