import { assert, describe, it } from "@effect/vitest"
import { defaultEngineSettings, EngineConfig, type EngineSettings } from "@kiln/core/effect"
import { RateLimitStore } from "@kiln/core/ports"
import { Worker } from "@kiln/core/worker"
import { MemoryStores } from "@kiln/testing"
import { Clock, Context, Effect, Layer } from "effect"
import { mp3, plainProviders, speaks, within } from "./support/harness.ts"
import { finished, readJob, running, submitSpeech, submitTranscription } from "./support/jobs.ts"
import { allDone, live, open, submitMany } from "./support/liveSpeech.ts"
import { comesTrue, passTime, stopped } from "./support/virtualTime.ts"

const rated = (rate: { limit: number; perMs: number; burst?: number }): Partial<EngineSettings> => ({
  providers: {
    ...defaultEngineSettings.providers,
    speech: { ...defaultEngineSettings.providers.speech, concurrency: 0, rate },
  },
})

/** Speech that records when it was called. */
const timedSpeech = () => {
  const calls: Array<number> = []
  const speech = () =>
    Effect.andThen(
      Effect.map(Clock.currentTimeMillis, (now) => void calls.push(now)),
      Effect.as(Effect.sleep("20 millis"), mp3),
    )
  return { calls, providers: speaks(speech) }
}

/** The most calls in any period of this length. */
const mostWithin = (calls: ReadonlyArray<number>, periodMs: number) =>
  Math.max(...calls.map((from) => calls.filter((at) => at >= from && at < from + periodMs).length))

/** Memory stores that count the requests for portions. */
const counted = () => {
  const seen = { asked: 0 }
  const stores = Layer.effectContext(
    Effect.map(Layer.build(MemoryStores.layer), (context) => {
      const { takePortions } = Context.get(context, RateLimitStore)
      return Context.add(
        context,
        RateLimitStore,
        RateLimitStore.of({
          takePortions: (requests) =>
            Effect.suspend(() => {
              seen.asked += 1
              return takePortions(requests)
            }),
        }),
      )
    }),
  )
  return { seen, stores }
}

/** Another worker over the same stores, like another process. */
const anotherWorker = (settings: Partial<EngineSettings>) =>
  Effect.gen(function* () {
    const worker = Context.get(yield* Layer.build(Layer.fresh(Worker.layer)), Worker)
    yield* Effect.acquireRelease(Effect.forkDetach(worker.run), (fiber) => stopped(fiber, "10 minutes"))
  }).pipe(Effect.provideService(EngineConfig, { ...defaultEngineSettings, ...settings }))

describe("the rate of a provider", () => {
  it.effect("holds for all workers together, is used in full, and costs no failures", () => {
    const { calls, providers } = timedSpeech()
    const { seen, stores } = counted()
    const settings = rated({ limit: 60, perMs: 60_000, burst: 8 })
    return Effect.gen(function* () {
      yield* open
      const jobs = yield* submitMany(200)
      yield* running
      yield* anotherWorker(settings)
      assert.isTrue(yield* comesTrue(allDone(jobs), "5 minutes"))
      assert.strictEqual(calls.length, 200)
      assert.isAtMost(mostWithin(calls, 60_000), 60 + 8)
      assert.isAtMost(mostWithin(calls, 1_000), 1 + 8)
      // 8 at once and then one a second; a tenth more for portions that wait for the other worker's jobs.
      assert.isAtMost((calls.at(-1) ?? 0) - (calls[0] ?? 0), 1.1 * 192_000)
      let deferrals = 0
      for (const { id } of jobs) {
        const { attempts, failures, lostWorkers } = yield* readJob(id, live)
        assert.deepStrictEqual({ failures, lostWorkers }, { failures: 0, lostWorkers: 0 })
        deferrals += attempts - 1
      }
      console.log({deferrals, seen, calls: calls.length, span: (calls.at(-1)??0)-(calls[0]??0)})
      assert.isAtMost(deferrals, 20)
      // Each worker asks at most once a second while there is nothing to take.
      assert.isAtMost(seen.asked, 2 * 200)
    }).pipe(within({ live: providers, stores, settings }))
  })

  it.effect("needs few requests to the store when it is high", () => {
    const { calls, providers } = timedSpeech()
    const { seen, stores } = counted()
    return Effect.gen(function* () {
      yield* open
      yield* running
      const jobs = yield* submitMany(400)
      assert.isTrue(yield* comesTrue(allDone(jobs), "1 minutes"))
      assert.isAtMost(mostWithin(calls, 1_000), 200 + 40)
      assert.isAtMost(seen.asked, 400 / 5)
    }).pipe(
      within({
        live: providers,
        stores,
        settings: { ...rated({ limit: 200, perMs: 1_000, burst: 40 }), concurrency: 40, queueCap: 0 },
      }),
    )
  })

  it.effect("leaves slots to jobs that do not need it, and asks the store rarely while it waits for hours", () => {
    const { calls, providers } = timedSpeech()
    const { seen, stores } = counted()
    return Effect.gen(function* () {
      yield* open
      yield* running
      const jobs = yield* submitMany(20)
      yield* passTime("1 minute")
      assert.strictEqual(calls.length, 2)
      const before = seen.asked
      const other = yield* submitTranscription("other", live)
      assert.strictEqual((yield* finished(other.id, "2 seconds", live)).status, "done")
      yield* passTime("58 minutes")
      assert.strictEqual(calls.length, 2 + 9)
      assert.isAtMost(seen.asked - before, 2 * 10)
      let deferrals = 0
      for (const { id } of jobs) {
        const { attempts, status } = yield* readJob(id, live)
        deferrals += status === "done" ? attempts - 1 : attempts
      }
      assert.isAtMost(deferrals, 12)
    }).pipe(within({ live: providers, stores, settings: rated({ limit: 10, perMs: 3_600_000 }) }))
  })

  it.effect("does not limit sandbox jobs, and an idle worker asks the store nothing", () => {
    const { calls, providers } = timedSpeech()
    const { seen, stores } = counted()
    return Effect.gen(function* () {
      yield* running
      const jobs = yield* Effect.forEach([1, 2, 3, 4, 5, 6], (n) => submitSpeech(`k${n}`))
      for (const { id } of jobs) assert.strictEqual((yield* finished(id, "5 seconds")).status, "done")
      yield* passTime("1 hour")
      assert.deepStrictEqual([calls.length, seen.asked], [6, 0])
    }).pipe(
      within({
        live: plainProviders,
        sandbox: providers,
        stores,
        settings: rated({ limit: 1, perMs: 3_600_000, burst: 1 }),
      }),
    )
  })
})
