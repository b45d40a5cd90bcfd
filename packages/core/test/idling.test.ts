import { assert, describe, it } from "@effect/vitest"
import { JobStore, WakeUp } from "@kiln/core/ports"
import { ProviderFailure } from "@kiln/core/providers"
import { layerSweeps, Worker } from "@kiln/core/worker"
import { MemoryStores } from "@kiln/testing"
import { Clock, Deferred, Effect, Layer, Random } from "effect"
import { everyVerbOf } from "./support/everyVerb.ts"
import { makeOutage, storeDown, storesClaimingApart, storesWith } from "./support/faults.ts"
import { mp3, plainProviders, speaks, type Stores, within } from "./support/harness.ts"
import { finished, openBoard, readJob, running, submitSpeech } from "./support/jobs.ts"
import { comesTrue, passTime } from "./support/virtualTime.ts"
import { makeChannel } from "./support/wakeUps.ts"

type Channel = ReturnType<typeof makeChannel>

/** Chance that is the same in every run: every pause is a twentieth shorter than it may be. */
const evenly = Effect.provideService(Random.Random, { nextDoubleUnsafe: () => 0.5, nextIntUnsafe: () => 1 })

const listening = (stores: Layer.Layer<Stores>, channel: Channel): Layer.Layer<Stores> =>
  Layer.merge(
    stores,
    Layer.sync(WakeUp, () => channel.join()),
  )

/** Stores that record the times of claims, in milliseconds. */
const watched = (multiProcess: boolean) => {
  const claims: Array<number> = []
  const stores = storesWith(JobStore, (store) => ({
    capabilities: { ...store.capabilities, multiProcess },
    claimJobs: (request) =>
      Effect.andThen(
        Effect.map(Clock.currentTimeMillis, (now) => void claims.push(now)),
        store.claimJobs(request),
      ),
  }))
  return { claims, stores }
}
const gaps = (times: ReadonlyArray<number>) => times.slice(1).map((time, index) => time - (times[index] ?? 0))
const grown = [950, 1_900, 3_800, 7_600, 15_200, 28_500, 28_500]

const isDone = (id: string) => Effect.map(readJob(id), ({ status }) => status === "done")

describe("an idle process", () => {
  it.effect("calls the store at most once in 4 s, and reacts to a notification immediately", () => {
    const channel = makeChannel()
    const asked: Array<string> = []
    const counting = everyVerbOf(storesClaimingApart, (verb, call) =>
      Effect.suspend(() => {
        asked.push(verb)
        return call
      }),
    )
    return Effect.gen(function* () {
      yield* openBoard({ input_characters: "0.1" })
      yield* Layer.build(layerSweeps)
      const first = yield* submitSpeech("first")
      yield* finished(first.id, "1 minutes")
      yield* passTime("5 minutes")
      asked.length = 0
      yield* passTime("10 minutes")
      assert.isAtMost(asked.length, 150, asked.join(" "))
      const kinds = new Set(asked)
      for (const verb of ["claimJobs", "readBoard", "expireJobs", "publishWorker", "expireUploads", "nextPurges"])
        assert.isTrue(kinds.has(verb), verb)

      channel.isDeaf = true
      const { id } = yield* submitSpeech("second")
      assert.isFalse(yield* comesTrue(isDone(id), 0))
      yield* channel.ring
      assert.isTrue(yield* comesTrue(isDone(id), 0))
    }).pipe(within({ stores: listening(counting, channel), live: plainProviders, worker: "running" }), evenly)
  })

  it.effect("that cannot hear other processes polls continuously", () => {
    const { claims, stores } = watched(true)
    return Effect.gen(function* () {
      yield* running
      yield* passTime("10 seconds")
      assert.deepStrictEqual(new Set(gaps(claims)), new Set([950]))
    }).pipe(within({ stores }), evenly)
  })

  for (const [what, { claims, stores }, reach] of [
    ["that hears all others", watched(true), "installation"],
    ["that is the only one", watched(false), "process"],
  ] as const)
    it.effect(`${what} polls less and less often, but at least once per lease`, () => {
      const channel = makeChannel(reach)
      return Effect.gen(function* () {
        yield* running
        yield* passTime("90 seconds")
        assert.deepStrictEqual(gaps(claims), grown)
      }).pipe(within({ stores: listening(stores, channel), settings: { idlePollIntervalMs: 600_000 } }), evenly)
    })

  it.effect("that loses notifications polls more often immediately, and less often once it has them again", () => {
    const { claims, stores } = watched(true)
    const channel = makeChannel()
    return Effect.gen(function* () {
      yield* running
      yield* passTime("70 seconds")
      channel.reach = "process"
      yield* channel.ring
      yield* comesTrue(Effect.succeed(false), 0)
      claims.length = 0
      yield* passTime("20 seconds")
      assert.deepStrictEqual(new Set(gaps(claims)), new Set([950]))
      channel.reach = "installation"
      yield* channel.ring
      yield* comesTrue(Effect.succeed(false), 0)
      claims.length = 0
      yield* passTime("90 seconds")
      assert.deepStrictEqual(gaps(claims), grown.slice(1))
    }).pipe(within({ stores: listening(stores, channel) }), evenly)
  })

  it.effect("keeps calling an unavailable store, and reports that it is overdue until it is answered", () => {
    const outage = makeOutage(storeDown)
    const asked: Array<number> = []
    const stores = storesWith(JobStore, (store) => ({
      claimJobs: (request) =>
        Effect.andThen(
          Effect.map(Clock.currentTimeMillis, (now) => void asked.push(now)),
          outage.strikes(store.claimJobs(request)),
        ),
    }))
    return Effect.gen(function* () {
      const worker = yield* Worker
      assert.isUndefined(yield* worker.nextClaimBy)
      yield* running
      yield* passTime("59 seconds")
      assert.deepStrictEqual(gaps(asked), grown.slice(0, 6))
      assert.strictEqual(yield* worker.nextClaimBy, 57_950 + 28_500)
      yield* outage.begin
      yield* passTime("31 seconds")
      asked.length = 0
      yield* passTime("20 seconds")
      assert.deepStrictEqual(new Set(gaps(asked)), new Set([950]))
      assert.strictEqual(yield* worker.nextClaimBy, 57_950 + 28_500)
      yield* outage.end
      yield* passTime("1 seconds")
      assert.isAbove((yield* worker.nextClaimBy) ?? 0, 110_000)
    }).pipe(within({ stores: listening(stores, makeChannel()) }), evenly)
  })

  it.effect("that finds a job without a notification polls more often again", () => {
    const { claims, stores } = watched(true)
    const channel = makeChannel()
    channel.isDeaf = true
    return Effect.gen(function* () {
      yield* running
      yield* passTime("70 seconds")
      yield* submitSpeech("k")
      claims.length = 0
      yield* passTime("30 seconds")
      assert.deepStrictEqual(gaps(claims).slice(0, 3), grown.slice(0, 3))
    }).pipe(within({ stores: listening(stores, channel), sandbox: speaks(() => Effect.never) }), evenly)
  })

  it.effect("that is woken without work polls at that moment, not at its planned time", () => {
    const hang = makeOutage(storeDown)
    const stores = storesWith(JobStore, (store) => ({
      claimJobs: (request) => hang.strikes(store.claimJobs(request)),
    }))
    const channel = makeChannel()
    return Effect.gen(function* () {
      const worker = yield* Worker
      yield* running
      yield* passTime("60 seconds")
      yield* hang.begin
      yield* channel.ring
      yield* passTime("5 seconds")
      assert.strictEqual(yield* worker.nextClaimBy, 60_000)
      yield* hang.end
    }).pipe(within({ stores: listening(stores, channel) }), evenly)
  })
})

describe("a worker with a job in progress", () => {
  const busy = new ProviderFailure({ errorCode: "provider_unavailable", retry: true, detail: "busy" })

  it.effect("polls again soon after an attempt, whatever it had planned: the job may be deferred", () => {
    const begun: Array<number> = []
    const speech = speaks(() =>
      Effect.gen(function* () {
        begun.push(yield* Clock.currentTimeMillis)
        yield* Effect.sleep("8 seconds")
        if (begun.length > 1) return mp3
        return yield* busy
      }),
    )
    return Effect.gen(function* () {
      yield* running
      const { id } = yield* submitSpeech("k")
      assert.strictEqual((yield* finished(id, "1 minutes")).status, "done")
      const [first, second] = begun
      // The pause after the failure is at most a second, and so is the time until the next look.
      assert.isAtMost((second ?? Infinity) - (first ?? 0), 8_000 + 2_000)
    }).pipe(within({ stores: listening(MemoryStores.layer, makeChannel()), sandbox: speech }))
  })

  it.effect("polls again soon after an attempt that ended during a poll", () => {
    const fails = Deferred.makeUnsafe<never, ProviderFailure>()
    let endedAt: number | undefined
    let again: number | undefined
    let isSlow = false
    const stores = storesWith(JobStore, (store) => ({
      // What it answers was so before the attempt ended, and is heard after it.
      claimJobs: (request) =>
        Effect.tap(store.claimJobs(request), () =>
          Effect.gen(function* () {
            if (!isSlow) return
            isSlow = false
            endedAt = yield* Clock.currentTimeMillis
            yield* Deferred.fail(fails, busy)
            yield* Effect.sleep("1 seconds")
          }),
        ),
    }))
    const speech = speaks(() =>
      Effect.suspend(() =>
        endedAt === undefined
          ? Deferred.await(fails)
          : Effect.map(Clock.currentTimeMillis, (now) => {
              again = now
              return mp3
            }),
      ),
    )
    return Effect.gen(function* () {
      yield* running
      const { id } = yield* submitSpeech("k")
      // Long enough that it would wait for many seconds.
      yield* passTime("20 seconds")
      isSlow = true
      assert.strictEqual((yield* finished(id, "2 minutes")).status, "done")
      assert.isAtMost((again ?? Infinity) - (endedAt ?? 0), 1_000 + 2_000)
    }).pipe(within({ stores: listening(stores, makeChannel()), sandbox: speech }))
  })
})
