import { assert, describe, it } from "@effect/vitest"
import { type Deferral, JobStore } from "@kiln/core/ports"
import { Clock, Effect } from "effect"
import { JobEvents } from "../src/engine/JobEvents.ts"
import { storeDown, storesWith } from "./support/faults.ts"
import { mp3, principal, speaks, within } from "./support/harness.ts"
import { finished, readJob, running, submitSpeech } from "./support/jobs.ts"
import { passTime } from "./support/virtualTime.ts"

/** Jobs that lost two of three workers: the next loss ends them, so it must be their own fault. */

const leaseDurationMs = 30_000

/** Claims everything and never comes back, as a worker that is killed. */
const loseWorker = Effect.gen(function* () {
  const store = yield* JobStore
  yield* store.claimJobs({
    runnable: [{ kind: "speech_synthesis", kindVersion: 1, mode: "sandbox" }],
    limits: { perKind: {}, perProject: 0 },
    limit: 100,
    leaseDurationMs,
    maxLostWorkers: 3,
  })
  yield* passTime(leaseDurationMs)
})

/** Speech that takes a second and records for each job the maximum number of jobs that ran beside it. */
const watchedSpeech = () => {
  const now = new Set<string>()
  const most = new Map<string, number>()
  const sandbox = speaks((_, { jobId }) =>
    Effect.acquireUseRelease(
      Effect.sync(() => {
        now.add(jobId)
        for (const id of now) most.set(id, Math.max(most.get(id) ?? 0, now.size))
      }),
      () => Effect.as(Effect.sleep("1 second"), mp3),
      () => Effect.sync(() => now.delete(jobId)),
    ),
  )
  return { most, sandbox }
}

describe("a job that may lose only one more worker", () => {
  it.effect("runs alone, one job at a time, and the jobs that run beside it finish", () => {
    const { most, sandbox } = watchedSpeech()
    const deferrals: Array<ReadonlyArray<Deferral>> = []
    const stores = storesWith(JobStore, (store) => ({
      deferJobs: (items) => {
        deferrals.push(items)
        return store.deferJobs(items)
      },
    }))
    return Effect.gen(function* () {
      const suspects = yield* Effect.forEach(["a", "b", "c"], (key) => submitSpeech(key))
      yield* loseWorker
      yield* loseWorker
      const others = yield* Effect.forEach(["d", "e", "f"], (key) => submitSpeech(key))
      yield* running
      for (const { id } of [...suspects, ...others]) {
        const job = yield* finished(id, "1 minute")
        assert.strictEqual(job.status, "done")
      }
      for (const { id } of suspects) {
        assert.strictEqual((yield* finished(id, 0)).lostWorkers, 2)
        assert.strictEqual(most.get(id), 1)
      }
      assert.isAbove(Math.max(...others.map(({ id }) => most.get(id) ?? 0)), 1)
      const delayMs = deferrals[0]?.[0]?.delayMs ?? 0
      const rest = { countsAsFailure: false, wait: { reason: "isolation", subject: null, cause: null } }
      assert.deepStrictEqual(
        deferrals[0]?.map(({ jobId: _, token: __, ...deferral }) => deferral),
        [
          { ...rest, delayMs },
          { ...rest, delayMs: 2 * delayMs },
        ] as never,
      )
      for (const { id } of suspects) assert.isBelow((yield* readJob(id)).attempts, 6)
    }).pipe(within({ sandbox, stores, settings: { leaseDurationMs } }))
  })

  it.effect("waits for the others like it in its slot if the store cannot defer it", () => {
    const { most, sandbox } = watchedSpeech()
    const stores = storesWith(JobStore, () => ({ deferJobs: () => Effect.fail(storeDown) }))
    return Effect.gen(function* () {
      const suspects = yield* Effect.forEach(["a", "b"], (key) => submitSpeech(key))
      yield* loseWorker
      yield* loseWorker
      yield* running
      for (const { id } of suspects)
        assert.deepInclude(yield* finished(id, "10 seconds"), { status: "done", attempts: 3, lostWorkers: 2 })
      assert.deepStrictEqual([...most.values()], [1, 1])
    }).pipe(within({ sandbox, stores, settings: { leaseDurationMs } }))
  })

  it.effect("waits at most a lease for the jobs beside it", () => {
    const { most, sandbox } = watchedSpeech()
    const hanging = speaks((request, call) => (call.attempt === 1 ? Effect.never : sandbox.speech(request, call)))
    return Effect.gen(function* () {
      const suspect = yield* submitSpeech("a")
      yield* loseWorker
      yield* loseWorker
      yield* submitSpeech("hangs")
      yield* running
      yield* passTime(leaseDurationMs - 5_000)
      assert.strictEqual(most.size, 0)
      const job = yield* finished(suspect.id, "10 seconds")
      assert.strictEqual(job.status, "done")
    }).pipe(within({ sandbox: hanging, settings: { leaseDurationMs, runLimitMs: 600_000 } }))
  })

  it.effect("keeps the others waiting for a few leases, however long it runs", () => {
    const slow = new Set<string>()
    const beganAt = new Map<string, number>()
    const slowNow = new Set<string>()
    let mostSlow = 0
    const sandbox = speaks((_, { jobId }) =>
      Effect.gen(function* () {
        beganAt.set(jobId, yield* Clock.currentTimeMillis)
        if (!slow.has(jobId)) return yield* Effect.as(Effect.sleep("1 second"), mp3)
        slowNow.add(jobId)
        mostSlow = Math.max(mostSlow, slowNow.size)
        yield* Effect.sleep("10 minutes")
        slowNow.delete(jobId)
        return mp3
      }),
    )
    return Effect.gen(function* () {
      const suspects = yield* Effect.forEach([1, 2, 3, 4, 5, 6], (n) => submitSpeech(`a${n}`))
      for (const { id } of suspects) slow.add(id)
      yield* loseWorker
      yield* loseWorker
      yield* running
      yield* passTime("5 seconds")
      const who = principal("sandbox", "b")
      for (let n = 0; n < 60; n++) {
        const submittedAt = yield* Clock.currentTimeMillis
        const { id } = yield* submitSpeech(`b${n}`, who)
        assert.strictEqual((yield* finished(id, "20 minutes", who)).status, "done")
        assert.isAtMost((beganAt.get(id) ?? Infinity) - submittedAt, 3 * leaseDurationMs + 5_000, `job ${n}`)
        yield* passTime("30 seconds")
      }
      for (const { id } of suspects) assert.strictEqual((yield* finished(id, "3 hours")).status, "done")
      const attempts = yield* Effect.forEach(suspects, ({ id }) => Effect.map(readJob(id), (job) => job.attempts))
      assert.strictEqual(mostSlow, 1)
      assert.isAtMost(Math.max(...attempts), 30)
    }).pipe(within({ sandbox, settings: { leaseDurationMs, concurrency: 8 } }))
  })

  it.effect("ends with the loss, which this process tells", () => {
    const failed: Array<readonly [string, string]> = []
    return Effect.gen(function* () {
      const job = yield* submitSpeech("a")
      for (let lost = 0; lost < 3; lost++) yield* loseWorker
      ;(yield* JobEvents).listen((event) => {
        if (event.type === "failed") failed.push([event.jobId, event.errorCode])
      })
      yield* running
      yield* finished(job.id, "1 minute")
      assert.deepStrictEqual(failed, [[job.id, "attempts_exhausted"]])
    }).pipe(within({ settings: { leaseDurationMs } }))
  })

  it.effect("does not run alone if the limit is one lost worker", () => {
    const { most, sandbox } = watchedSpeech()
    return Effect.gen(function* () {
      const jobs = yield* Effect.forEach(["a", "b", "c"], (key) => submitSpeech(key))
      yield* running
      for (const { id } of jobs) assert.strictEqual((yield* finished(id, "1 minute")).status, "done")
      assert.deepStrictEqual([...most.values()], [3, 3, 3])
    }).pipe(
      within({
        sandbox,
        settings: {
          leaseDurationMs,
          attempts: { maxFailures: 3, maxLostWorkers: 1, backoffBaseMs: 1, backoffMaxMs: 2, retryAfterMaxMs: 10 },
        },
      }),
    )
  })
})
