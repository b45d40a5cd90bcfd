// What a worker says of ends that the store refuses, or whose answers it loses.
import { assert, describe, it } from "@effect/vitest"
import { JobStore } from "@kiln/core/ports"
import { Effect, Logger } from "effect"
import { cancelJob } from "../src/engine/cancelJob.ts"
import { JobEvents } from "../src/engine/JobEvents.ts"
import { storeDown, storesWith } from "./support/faults.ts"
import { mp3, speaks, within } from "./support/harness.ts"
import { readJob, running, submitSpeech } from "./support/jobs.ts"
import { passTime } from "./support/virtualTime.ts"

type Completes = JobStore["Service"]["completeJobs"]

/** Runs one speech job whose completion goes through `change`. Returns what was said of it, and how its row stands. */
const ran = (change: (complete: Completes) => Completes) => {
  const said: Array<string> = []
  const lines: Array<string> = []
  const capture = Logger.layer([Logger.map(Logger.formatLogFmt, (line) => void lines.push(line))])
  return Effect.gen(function* () {
    ;(yield* JobEvents).listen(({ type }) => void said.push(type))
    const { id } = yield* submitSpeech("a")
    yield* running
    yield* passTime("2 minutes")
    const { attempts, errorCode, status } = yield* readJob(id)
    return { said, lines, job: { attempts, errorCode, status } }
  }).pipe(
    within({
      stores: storesWith(JobStore, ({ completeJobs }) => ({ completeJobs: change(completeJobs) })),
    }),
    Effect.provide(capture),
  )
}

/** Does something else instead of the first call. */
const first =
  (instead: (complete: Completes) => Completes) =>
  (complete: Completes): Completes => {
    let calls = 0
    return (items) => (calls++ === 0 ? instead(complete)(items) : complete(items))
  }

const about = (lines: ReadonlyArray<string>, text: string) => lines.filter((line) => line.includes(text))

describe("a result", () => {
  it.effect("that the store rejects fails its job at once, and the log says why", () =>
    Effect.gen(function* () {
      const { job, lines, said } = yield* ran(first(() => () => Effect.die(new Error("no such column"))))
      assert.deepStrictEqual(job, { attempts: 1, errorCode: "internal_error", status: "failed" })
      assert.include(about(lines, "the store rejected a result")[0], "lostEnds.test.ts")
      assert.deepStrictEqual([said.includes("failed"), said.includes("completed")], [true, false])
    }),
  )

  it.effect("whose answer says that the lease is lost counts if the row has it", () =>
    Effect.gen(function* () {
      const lost = first((complete) => (items) => Effect.map(complete(items), () => ["LeaseLost"] as const))
      const { job, lines, said } = yield* ran(lost)
      assert.deepStrictEqual(job, { attempts: 1, errorCode: null, status: "done" })
      assert.strictEqual(said.filter((type) => type === "completed").length, 1)
      assert.deepStrictEqual(about(lines, "lease"), [])
    }),
  )

  it.effect("that the store refuses is not said to be complete, and the job runs again", () =>
    Effect.gen(function* () {
      const { job, said } = yield* ran(first(() => () => Effect.succeed(["LeaseLost"])))
      assert.deepStrictEqual(job, { attempts: 2, errorCode: null, status: "done" })
      assert.strictEqual(said.filter((type) => type === "completed").length, 1)
    }),
  )

  it.effect("whose write takes longer than a lease is awaited, because the lease is renewed", () =>
    Effect.gen(function* () {
      const slow = first((complete) => (items) => Effect.delay(complete(items), "50 seconds"))
      const { job, said } = yield* ran(slow)
      assert.deepStrictEqual(job, { attempts: 1, errorCode: null, status: "done" })
      assert.strictEqual(said.filter((type) => type === "completed").length, 1)
    }),
  )

  it.effect("is written late if the store is unavailable for less than the lease", () =>
    Effect.gen(function* () {
      const down = first(() => () => Effect.fail(storeDown))
      const { job, said } = yield* ran(down)
      assert.deepStrictEqual(job, { attempts: 1, errorCode: null, status: "done" })
      assert.strictEqual(said.filter((type) => type === "completed").length, 1)
    }),
  )

  it.effect("of a job that was canceled meanwhile is dropped, and the log says so", () => {
    const lines: Array<string> = []
    const said: Array<string> = []
    const capture = Logger.layer([Logger.map(Logger.formatLogFmt, (line) => void lines.push(line))])
    return Effect.gen(function* () {
      ;(yield* JobEvents).listen(({ type }) => void said.push(type))
      const { id } = yield* submitSpeech("a")
      yield* running
      yield* passTime("1 second")
      yield* cancelJob(id)
      yield* passTime("2 minutes")
      assert.strictEqual((yield* readJob(id)).errorCode, "canceled_by_operator")
      assert.strictEqual(about(lines, "the attempt ended with its job").length, 1)
      assert.deepStrictEqual([about(lines, "lease lost"), said.includes("completed")], [[], false])
    }).pipe(within({ sandbox: speaks(() => Effect.as(Effect.sleep("1 minute"), mp3)) }), Effect.provide(capture))
  })
})
