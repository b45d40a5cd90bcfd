import { assert, describe, it } from "@effect/vitest"
import { builtInKinds, createEngine, jobKind } from "@kiln/core"
import { Engine } from "@kiln/core/effect"
import { JobKind, JobKinds } from "@kiln/core/kinds"
import { RateLimitStore } from "@kiln/core/ports"
import { providerPort } from "@kiln/core/providers"
import { memoryBlobs, memoryStore, MemoryStores } from "@kiln/testing"
import { Clock, Context, Effect, Layer, Schema } from "effect"
import { grantOf, plainProviders, principal, within } from "./support/harness.ts"
import { finished, readJob, running, submitSpeech, submitTranscription } from "./support/jobs.ts"
import { allDone, live, open, submitMany } from "./support/liveSpeech.ts"
import { comesTrue, passTime } from "./support/virtualTime.ts"
import { anotherWorker, rated, timedSpeech } from "./providers/support/twoWorkers.ts"

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

const nothing = { output: {}, files: [], usage: {} }

describe("the rate of a kind", () => {
  it.effect("limits the attempts that start, with retries, and no other kind", () => {
    const starts: Array<number> = []
    const ping = JobKind({
      name: "ping",
      keyScope: "audio.create",
      request: Schema.Struct({}),
      limits: { rate: { limit: 6, perMs: 60_000, burst: 2 } },
      run: ({ call }) =>
        Effect.flatMap(Clock.currentTimeMillis, (now) => {
          starts.push(now)
          return call.failures === 0 ? Effect.die("once") : Effect.succeed(nothing)
        }),
    })
    const pong = JobKind({
      name: "pong",
      keyScope: "audio.create",
      request: Schema.Struct({}),
      run: () => Effect.succeed(nothing),
    })
    const submit = (kind: typeof ping | typeof pong, key: string) =>
      Effect.flatMap(Engine, (engine) => engine.createJob(grantOf(principal()), kind, {}, key))
    return Effect.gen(function* () {
      const jobs = yield* Effect.forEach([1, 2, 3, 4, 5, 6], (n) => submit(ping, `ping ${n}`))
      yield* running
      yield* passTime("1 second")
      assert.strictEqual(starts.length, 2)
      const { job } = yield* submit(pong, "pong")
      assert.strictEqual((yield* finished(job.id, "1 seconds")).status, "done")
      yield* passTime("59 seconds")
      assert.isAtMost(starts.length, 2 + 6)
      for (const one of jobs) assert.strictEqual((yield* finished(one.job.id, "5 minutes")).status, "done")
      // Each of the six started twice.
      assert.strictEqual(starts.length, 12)
      assert.isAtMost(mostWithin(starts, 60_000), 2 + 6)
      assert.isAtMost((starts.at(-1) ?? 0) - (starts[0] ?? 0), 130_000)
    }).pipe(within({}), Effect.provideService(JobKinds, [ping, pong]))
  })
})

describe("a rate that is not one", () => {
  const given = (rate: unknown) => ({ name: "k", request: Schema.Struct({}), limits: { rate }, run: async () => ({}) })
  const wrong = [
    [60, "must be an object { limit, perMs, burst }"],
    [{ limit: 0, perMs: 1_000 }, "needs a limit that is an integer from 1 to 1000000"],
    [{ limit: 1 }, "needs a perMs from 1 to a year, in milliseconds"],
    [{ limit: 1, perMs: 1_000, burst: 1.5 }, "needs a burst that is an integer from 1 to 1000000"],
    [{ limit: 1, perMs: 1_000, brust: 2 }, 'unknown field "brust"; did you mean "burst"?'],
  ] as const
  for (const [rate, problem] of wrong)
    it(`is refused everywhere: ${JSON.stringify(rate)}`, async () => {
      assert.throws(() => jobKind(given(rate) as never), `rate of job kind "k" ${problem}`)
      assert.throws(
        () => providerPort({ name: "p", check: String, rate } as never),
        `rate of provider port "p" ${problem}`,
      )
      const settings = { providers: { speech: { rate } } } as never
      const opened = createEngine({
        store: memoryStore(),
        blobs: memoryBlobs(),
        kinds: builtInKinds(),
        settings,
        worker: false,
      })
      const refused = await opened.then(
        () => "accepted",
        (error: unknown) => (error instanceof TypeError ? error.message : "another error"),
      )
      assert.include(refused, `settings.providers.speech.rate ${problem}`)
    })
})
