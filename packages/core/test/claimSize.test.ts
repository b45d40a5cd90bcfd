import { assert, it } from "@effect/vitest"
import { JobStore } from "@kiln/core/ports"
import { Deferred, Effect } from "effect"
import { storesWith } from "./support/faults.ts"
import { within } from "./support/harness.ts"
import { finished, running, submitSpeech } from "./support/jobs.ts"

/** Stores in which jobs complete once the second claim was asked for, or after ten seconds. Records how many jobs each claim asked for and got. */
const overlapping = () => {
  const claims: Array<readonly [free: number | undefined, claimed: number]> = []
  const second = Deferred.makeUnsafe<void>()
  let asked = 0
  const stores = storesWith(JobStore, (store) => ({
    claimJobs: (request) =>
      Effect.suspend(() => {
        if ((asked += 1) === 2) Deferred.doneUnsafe(second, Effect.void)
        return Effect.tap(store.claimJobs(request), ({ claims: got }) =>
          Effect.sync(() => void claims.push([request.worker?.free.sandbox, got.length])),
        )
      }),
    completeJobs: (items) =>
      Effect.andThen(Effect.timeoutOption(Deferred.await(second), "10 seconds"), store.completeJobs(items)),
  }))
  return { claims, stores }
}

const submitted = (count: number) =>
  Effect.forEach(
    Array.from({ length: count }, (_, n) => `key ${n}`),
    (key) => submitSpeech(key),
    {
      concurrency: "unbounded",
    },
  )

it.effect("a worker with many slots claims again while the jobs of its last claim complete", () => {
  const { claims, stores } = overlapping()
  return Effect.gen(function* () {
    const jobs = yield* submitted(450)
    yield* running
    for (const { id } of jobs) assert.strictEqual((yield* finished(id, "1 minutes")).status, "done")
    assert.deepStrictEqual(claims[0], [150, 150])
    assert.deepStrictEqual(claims[1], [150, 150])
    assert.isTrue(claims.every(([free = 0]) => free <= 150))
    assert.strictEqual(
      claims.reduce((sum, [, count]) => sum + count, 0),
      450,
    )
  }).pipe(within({ stores, settings: { concurrency: 300, queueCap: 0, limits: { perKind: {}, perProject: 0 } } }))
})

it.effect("a worker with few slots fills them with one claim", () => {
  const { claims, stores } = overlapping()
  return Effect.gen(function* () {
    const jobs = yield* submitted(80)
    yield* running
    for (const { id } of jobs) yield* finished(id, "1 minutes")
    assert.deepStrictEqual(claims[0], [80, 80])
  }).pipe(within({ stores, settings: { concurrency: 80, queueCap: 0, limits: { perKind: {}, perProject: 0 } } }))
})
