import { assert, describe, it } from "@effect/vitest"
import { JobStore } from "@kiln/core/ports"
import { Effect } from "effect"
import { storesWith } from "./support/faults.ts"
import { mp3, speaks, within } from "./support/harness.ts"
import { finished, readJob, running, submitSpeech } from "./support/jobs.ts"
import { passTime, passUntil, stopped } from "./support/virtualTime.ts"

/** A store whose claims take `answerMs`, return one job and say that there are more, and what happens beside its worker. */
const observed = (answerMs: number) => {
  const seen: Array<string> = []
  const stores = storesWith(JobStore, (store) => ({
    claimJobs: (request) =>
      Effect.suspend(() => {
        seen.push("claim")
        return Effect.map(Effect.delay(store.claimJobs({ ...request, limit: 1 }), answerMs), (answer) =>
          answer.claims.length === 0 ? answer : { ...answer, nextInMs: 0 },
        )
      }),
  }))
  const sandbox = speaks(() =>
    Effect.suspend(() => {
      seen.push("run")
      return Effect.as(Effect.sleep("1 seconds"), mp3)
    }),
  )
  return { sandbox, seen, stores }
}

describe("a worker with more to claim", () => {
  it.effect(
    "sends the next claim before the claimed jobs begin, and does not wait for its answer to begin them",
    () => {
      const { sandbox, seen, stores } = observed(100)
      return Effect.gen(function* () {
        yield* submitSpeech("1")
        yield* submitSpeech("2")
        yield* running
        yield* passTime("150 millis")
        assert.deepStrictEqual(seen, ["claim", "claim", "run"])
        yield* passTime("100 millis")
        assert.deepStrictEqual(seen, ["claim", "claim", "run", "claim", "run"])
      }).pipe(within({ sandbox, stores }))
    },
  )

  it.effect("begins the claimed jobs at once when all slots are taken", () => {
    const { sandbox, seen, stores } = observed(100)
    return Effect.gen(function* () {
      yield* submitSpeech("1")
      yield* submitSpeech("2")
      yield* running
      yield* passTime("150 millis")
      assert.deepStrictEqual(seen, ["claim", "run"])
    }).pipe(within({ sandbox, settings: { concurrency: 1 }, stores }))
  })

  it.effect("ends jobs that are claimed and not begun when it is stopped", () => {
    const { sandbox, seen, stores } = observed(100)
    return Effect.gen(function* () {
      const { id } = yield* submitSpeech("1")
      yield* submitSpeech("2")
      const worker = yield* running
      yield* passUntil(
        "the claim is on its way",
        Effect.sync(() => seen.length > 0),
        "1 seconds",
      )
      // Interrupted while it claims, it stops before it begins what it got.
      yield* stopped(worker, "10 seconds")
      assert.deepStrictEqual(seen, ["claim", "run"])
      const job = yield* readJob(id)
      assert.deepStrictEqual([job.status, job.lostWorkers], ["processing", 0])
      yield* running
      assert.strictEqual((yield* finished(id, "1 minutes")).status, "done")
    }).pipe(within({ sandbox, settings: { drainMs: 0 }, stores }))
  })

  it.effect.each<[concurrency: number, jobs: number]>([
    [20, 40],
    [80, 100],
    [300, 150],
  ])("claims jobs for its %d live and as many sandbox slots at once, at most %d", ([concurrency, jobs]) => {
    const limits = new Set<number>()
    const stores = storesWith(JobStore, (store) => ({
      claimJobs: (request) => {
        limits.add(request.limit)
        return store.claimJobs(request)
      },
    }))
    return Effect.gen(function* () {
      yield* running
      yield* passTime("1 seconds")
      assert.deepStrictEqual([...limits], [jobs])
    }).pipe(within({ settings: { concurrency }, stores }))
  })
})
