import { assert, describe, it } from "@effect/vitest"
import { Engine } from "@kiln/core/effect"
import { type JobId, StoreUnavailable } from "@kiln/core/domain"
import { JobDirectory, JobStore, WakeUp } from "@kiln/core/ports"
import { Effect, Fiber, Layer } from "effect"
import { TestClock } from "effect/testing"
import { JobEvents } from "../src/engine/JobEvents.ts"
import { replacing, storesWith } from "./support/faults.ts"
import { principal, within } from "./support/harness.ts"
import { running, submitSpeech } from "./support/jobs.ts"
import { makeChannel } from "./support/wakeUps.ts"

/** Stores that count the reads of those who wait, and can be made unavailable. */
const watched = () => {
  const seen = { away: false, gone: false, calls: 0, jobs: 0 }
  const counted = <A, Item>(
    items: ReadonlyArray<Item>,
    read: Effect.Effect<ReadonlyArray<A | undefined>, StoreUnavailable>,
  ) =>
    Effect.suspend(() => {
      seen.calls += 1
      seen.jobs += items.length
      if (seen.gone) return Effect.succeed(items.map(() => undefined))
      return seen.away ? Effect.fail(new StoreUnavailable({ operation: "read", cause: "test" })) : read
    })
  const stores = replacing(
    storesWith(JobDirectory, ({ readJobs }) => ({ readJobs: (ids) => counted(ids, readJobs(ids)) })),
    JobStore,
    ({ readChunks }) => ({ readChunks: (items) => counted(items, readChunks(items)) }),
  )
  return { seen, stores }
}

const wait = (jobId: string, timeoutMs?: number) =>
  Effect.flatMap(Engine, (engine) => engine.waitForJob(principal(), jobId, timeoutMs))

describe("waiting for a job", () => {
  it.effect("survives an unavailable store", () => {
    const { seen, stores } = watched()
    return Effect.gen(function* () {
      const { id } = yield* submitSpeech("k")
      seen.away = true
      const waiting = yield* Effect.forkChild(wait(id), { startImmediately: true })
      yield* TestClock.adjust("20 seconds")
      assert.isAbove(seen.calls, 5)
      seen.away = false
      yield* running
      yield* TestClock.adjust("5 seconds")
      assert.strictEqual((yield* Fiber.join(waiting)).status, "done")
    }).pipe(within({ stores }))
  })

  it.effect("hears of the end in this process at once, and reads the job then and nothing else", () => {
    const { seen, stores } = watched()
    return Effect.gen(function* () {
      const { id } = yield* submitSpeech("k")
      const waiting = yield* Effect.forkChild(wait(id), { startImmediately: true })
      // The next read is 2 s later.
      yield* TestClock.adjust("10 seconds")
      yield* JobStore.use((store) => store.cancelJobs([id]))
      seen.calls = 0
      ;(yield* JobEvents).emit({ type: "finished", jobId: id })
      yield* TestClock.adjust(100)
      assert.isDefined(waiting.pollUnsafe())
      assert.strictEqual(seen.calls, 1)
    }).pipe(within({ stores }))
  })

  it.effect("waits on where the job that was told of has not finished", () => {
    const { seen, stores } = watched()
    return Effect.gen(function* () {
      const { id } = yield* submitSpeech("k")
      const waiting = yield* Effect.forkChild(wait(id), { startImmediately: true })
      yield* TestClock.adjust("10 seconds")
      seen.calls = 0
      ;(yield* JobEvents).emit({ type: "finished", jobId: id })
      yield* TestClock.adjust(100)
      assert.isUndefined(waiting.pollUnsafe())
      assert.isAtMost(seen.calls, 3)
      yield* running
      yield* TestClock.adjust("5 seconds")
      assert.strictEqual((yield* Fiber.join(waiting)).status, "done")
    }).pipe(within({ stores }))
  })

  it.effect("ends for others although a listener throws", () =>
    Effect.gen(function* () {
      const engine = yield* Engine
      const listen = (jobId: JobId, heard: Array<string>) => {
        for (const name of ["first", "second"])
          engine.onJobEnd(jobId, Infinity, () => {
            heard.push(name)
            throw new Error("a bug of the listener")
          })
        return heard
      }
      const [told, read, later] = [
        yield* submitSpeech("told"),
        yield* submitSpeech("read"),
        yield* submitSpeech("later"),
      ]
      const heard = [told, read, later].map(({ id }) => listen(id, []))
      yield* TestClock.adjust("10 seconds")
      yield* JobStore.use((store) => store.cancelJobs([told.id, read.id]))
      ;(yield* JobEvents).emit({ type: "finished", jobId: told.id })
      assert.deepStrictEqual(heard, [["first", "second"], [], []])
      yield* TestClock.adjust("5 seconds")
      yield* JobStore.use((store) => store.cancelJobs([later.id]))
      yield* TestClock.adjust("5 seconds")
      assert.deepStrictEqual(
        heard,
        heard.map(() => ["first", "second"]),
      )
    }).pipe(within()),
  )

  it.effect("listens to the events of this process only while somebody waits", () =>
    Effect.gen(function* () {
      const { id } = yield* submitSpeech("k")
      const events = yield* JobEvents
      let listeners = 0
      const { listenTo } = events
      const counted: typeof listenTo = (topic, listener) => {
        listeners += 1
        const stop = listenTo(topic, listener)
        return () => {
          listeners -= 1
          stop()
        }
      }
      Object.assign(events, { listenTo: counted })
      for (const round of [1, 2]) {
        const waiting = yield* Effect.forkChild(Effect.all([wait(id, 5_000), wait(id, 5_000)], { concurrency: 2 }))
        yield* TestClock.adjust("1 second")
        assert.strictEqual(listeners, 1, `round ${round}`)
        yield* TestClock.adjust("10 seconds")
        yield* Fiber.await(waiting)
        assert.strictEqual(listeners, 0, `round ${round}`)
      }
    }).pipe(within()),
  )

  it.effect("ends when the record of the job is deleted", () => {
    const { seen, stores } = watched()
    return Effect.gen(function* () {
      const { id } = yield* submitSpeech("k")
      const waiting = yield* Effect.forkChild(Effect.flip(wait(id)), { startImmediately: true })
      yield* TestClock.adjust("1 second")
      seen.gone = true
      yield* TestClock.adjust("5 seconds")
      assert.strictEqual((yield* Fiber.join(waiting))._tag, "JobNotFound")
    }).pipe(within({ stores }))
  })

  it.effect("ends after its timeout, even while the store is unavailable", () => {
    const { seen, stores } = watched()
    return Effect.gen(function* () {
      const { id } = yield* submitSpeech("k")
      seen.away = true
      const waiting = yield* Effect.forkChild(Effect.flip(wait(id, 3_000)), { startImmediately: true })
      yield* TestClock.adjust("3 seconds")
      const { _tag } = yield* Fiber.join(waiting)
      assert.strictEqual(_tag, "WaitTimeout")
    }).pipe(within({ stores }))
  })

  it.effect("shares its polls with other callers that poll at the same moment", () => {
    const { seen, stores } = watched()
    return Effect.gen(function* () {
      const jobs = yield* Effect.forEach(
        Array.from({ length: 40 }, (_, n) => `k${n}`),
        (key) => submitSpeech(key),
      )
      seen.calls = 0
      yield* Effect.forEach(jobs, ({ id }) => Effect.forkChild(wait(id), { startImmediately: true }))
      yield* TestClock.adjust("30 seconds")
      // At most every 2 s, with some more in the beginning; one question for all forty.
      assert.isAtMost(seen.calls, 40)
      assert.isAbove(seen.calls, 10)
    }).pipe(within({ stores }))
  })

  it.effect("reads many jobs rarely where every process is notified, and the more often for fewer", () => {
    const { seen, stores } = watched()
    const channel = makeChannel()
    channel.isDeaf = true
    const notified = Layer.merge(
      stores,
      Layer.sync(WakeUp, () => channel.join()),
    )
    const readsWhile = Effect.fnUntraced(function* (count: number) {
      const jobs = yield* Effect.forEach(Array.from({ length: count }), () => submitSpeech(crypto.randomUUID()))
      const before = seen.jobs
      const waits = yield* Effect.forEach(jobs, ({ id }) => Effect.forkChild(wait(id), { startImmediately: true }))
      for (let turn = 0; turn < 60; turn += 1) yield* TestClock.adjust(500)
      yield* Fiber.interruptAll(waits)
      return seen.jobs - before
    })
    return Effect.gen(function* () {
      // Each is read twice when the wait begins.
      assert.isAtLeast(yield* readsWhile(1), 8)
      assert.isAtMost(yield* readsWhile(1_000), 5_000)
    }).pipe(within({ stores: notified }))
  })

  it.effect("does not see another caller's job", () =>
    Effect.gen(function* () {
      const { id } = yield* submitSpeech("k")
      const engine = yield* Engine
      const { _tag } = yield* Effect.flip(engine.waitForJob(principal("sandbox", "b"), id))
      assert.strictEqual(_tag, "JobNotFound")
    }).pipe(within()),
  )
})
