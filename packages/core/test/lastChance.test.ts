import { assert, describe, it } from "@effect/vitest"
import { JobStore } from "@kiln/core/ports"
import { Effect } from "effect"
import { mp3, speaks, within } from "./support/harness.ts"
import { finished, running, submitSpeech } from "./support/jobs.ts"
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

/** Speech that takes a second, and notes for each job how many ran beside it at most. */
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

describe("a job that has one worker left to lose", () => {
  it.effect("runs alone, one after the other, and those beside it are done as well", () => {
    const { most, sandbox } = watchedSpeech()
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
    }).pipe(within({ sandbox, settings: { leaseDurationMs } }))
  })

  it.effect("waits for a tenth of its run limit at most for those beside it", () => {
    const { most, sandbox } = watchedSpeech()
    const hanging = speaks((request, call) => (call.attempt === 1 ? Effect.never : sandbox.speech.speak(request, call)))
    return Effect.gen(function* () {
      const suspect = yield* submitSpeech("a")
      yield* loseWorker
      yield* loseWorker
      yield* submitSpeech("hangs")
      yield* running
      yield* passTime("50 seconds")
      assert.strictEqual(most.size, 0)
      const job = yield* finished(suspect.id, "15 seconds")
      assert.strictEqual(job.status, "done")
    }).pipe(within({ sandbox: hanging, settings: { leaseDurationMs, runLimitMs: 600_000 } }))
  })

  it.effect("does not where one lost worker is all a job may have", () => {
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
