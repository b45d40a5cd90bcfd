import { assert, describe, it } from "@effect/vitest"
import { defaultEngineSettings, EngineConfig, type EngineSettings } from "@kiln/core/effect"
import { builtInKinds, JobKinds } from "@kiln/core/kinds"
import { layerSweeps } from "@kiln/core/worker"
import { Switchboard } from "@kiln/core/ports"
import { MemoryStores } from "@kiln/testing"
import { Clock, Effect, Layer, Random } from "effect"
import { everyVerbOf } from "./support/everyVerb.ts"
import { mp3, plainProviders, speaks, within } from "./support/harness.ts"
import { readJob, running, submitSpeech } from "./support/jobs.ts"
import { passTime, passUntil } from "./support/virtualTime.ts"

/** Chance that is the same in every run: a pause is a twentieth shorter than it may be. */
const evenly = Effect.provideService(Random.Random, { nextDoubleUnsafe: () => 0.5, nextIntUnsafe: () => 1 })

/** Stores that record the time of each call, in milliseconds. */
const watched = () => {
  const calls = new Map<string, Array<number>>()
  const stores = everyVerbOf(MemoryStores.layer, (verb, call) =>
    Effect.andThen(
      Effect.map(Clock.currentTimeMillis, (now) => void calls.set(verb, [...(calls.get(verb) ?? []), now])),
      call,
    ),
  )
  return { stores, times: (verb: string): ReadonlyArray<number> => calls.get(verb) ?? [] }
}
const gaps = (times: ReadonlyArray<number>) => times.slice(1).map((time, index) => time - (times[index] ?? 0))
const sweeping = (settings: Partial<EngineSettings> = {}) =>
  Effect.provideService(Layer.build(layerSweeps), EngineConfig, { ...defaultEngineSettings, ...settings })

describe("sweeps that find nothing", () => {
  it.effect("run less and less often", () => {
    const { stores, times } = watched()
    return Effect.gen(function* () {
      yield* sweeping()
      yield* passTime("20 minutes")
      assert.deepStrictEqual(gaps(times("expireJobs")).slice(0, 7), [950, 1_900, 3_800, 7_600, 15_200, 28_500, 28_500])
      for (const verb of ["expireData", "deleteJobs", "deleteUploads", "expireUploads", "nextPurges"])
        assert.deepStrictEqual(gaps(times(verb)).slice(0, 5), [57_000, 114_000, 228_000, 285_000, 285_000], verb)
    }).pipe(within({ stores }), evenly)
  })

  it.effect("run soon again after one that found something", () => {
    const { stores, times } = watched()
    return Effect.gen(function* () {
      yield* sweeping()
      const { id } = yield* submitSpeech("k")
      yield* passTime("59 minutes")
      yield* passUntil(
        "it is found",
        Effect.map(readJob(id), ({ status }) => status === "failed"),
        "2 minutes",
      )
      const found = times("expireJobs").length
      yield* passTime("5 seconds")
      assert.deepStrictEqual(gaps(times("expireJobs").slice(found - 1)), [950, 1_900])
    }).pipe(within({ stores, settings: { queueLimitMs: 3_600_000 } }), evenly)
  })

  it.effect("are at most one second late for each minute of a limit, and never less frequent than configured", () => {
    const { stores, times } = watched()
    return Effect.gen(function* () {
      yield* sweeping({ queueLimitMs: 300_000, jobRetentionMs: 7_200_000, upload: { ...defaultEngineSettings.upload } })
      yield* passTime("20 minutes")
      assert.deepStrictEqual(new Set(gaps(times("expireJobs")).slice(3)), new Set([4_750]))
      assert.deepStrictEqual(new Set(gaps(times("expireData")).slice(2)), new Set([114_000]))
    }).pipe(within({ stores }), evenly)
  })

  it.effect("keep pace with the shortest retention of a kind, which may be the only one", () => {
    const { stores, times } = watched()
    const kinds = builtInKinds().map((kind) => ({ ...kind, limits: { jobRetentionMs: 7_200_000 } }))
    return Effect.gen(function* () {
      yield* Effect.provideService(sweeping({ dataRetentionMs: 0, jobRetentionMs: 0 }), JobKinds, kinds)
      yield* passTime("20 minutes")
      assert.deepStrictEqual(new Set(gaps(times("deleteJobs")).slice(2)), new Set([114_000]))
      assert.deepStrictEqual(times("expireData"), [])
      assert.deepStrictEqual(times("deleteUploads"), [])
    }).pipe(within({ stores }), evenly)
  })

  it.effect("time out jobs with short limits as quickly as before", () => {
    const { stores, times } = watched()
    const settings = { queueLimitMs: 60_000 }
    return Effect.gen(function* () {
      yield* sweeping(settings)
      yield* passTime("10 minutes")
      assert.deepStrictEqual(new Set(gaps(times("expireJobs"))), new Set([950]))
      const { id } = yield* submitSpeech("k")
      yield* passTime("61 seconds")
      assert.strictEqual((yield* readJob(id)).errorCode, "queue_timeout")
    }).pipe(within({ stores, settings }), evenly)
  })
})

describe("processes started at the same time", () => {
  const firstCalls = (chance: number) => {
    const { stores, times } = watched()
    return Effect.gen(function* () {
      yield* sweeping()
      yield* passTime("1 minutes")
      const [first, second] = times("publishWorker")
      return [times("expireJobs")[0], times("expireData")[0], first, second]
    }).pipe(
      within({ stores, worker: "running", live: plainProviders }),
      Effect.provideService(Random.Random, { nextDoubleUnsafe: () => chance, nextIntUnsafe: () => 1 }),
    )
  }

  it.effect("do not sweep in step, but publish immediately what they serve", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* firstCalls(0.1), [100, 1_000, 0, 1_000])
      assert.deepStrictEqual(yield* firstCalls(0.8), [800, 8_000, 0, 8_000])
    }),
  )

  it.effect("publish what they serve although they serve no live jobs, and no kind as live", () => {
    const { stores, times } = watched()
    return Effect.gen(function* () {
      yield* passTime("1 minutes")
      assert.deepStrictEqual([times("publishWorker").length, times("claimJobs").length > 0], [7, true])
      const board = yield* Switchboard
      const [worker] = yield* board.listWorkers
      assert.deepStrictEqual([worker?.liveKinds, (yield* board.readBoard).liveKinds], [[], []])
      const speech = worker?.scope?.kinds.find(({ kind }) => kind === "speech_synthesis")
      assert.deepStrictEqual(speech?.modes, ["sandbox"])
    }).pipe(within({ stores, worker: "running" }))
  })
})

describe("a worker with a job in progress", () => {
  it.effect("ends it in time, however rarely others sweep", () =>
    Effect.gen(function* () {
      yield* running
      const { id } = yield* submitSpeech("k")
      yield* passTime("1799 seconds")
      assert.strictEqual((yield* readJob(id)).status, "processing")
      yield* passTime("2 seconds")
      assert.strictEqual((yield* readJob(id)).errorCode, "job_timeout")
    }).pipe(within({ sandbox: speaks(() => Effect.never) })),
  )

  it.effect("does not sweep before it has one or long after", () => {
    const { stores, times } = watched()
    return Effect.gen(function* () {
      yield* running
      yield* passTime("10 minutes")
      assert.deepStrictEqual(times("expireJobs"), [])
      yield* submitSpeech("k")
      yield* passTime("10 minutes")
      const sweeps = times("expireJobs")
      assert.deepStrictEqual([sweeps[0], sweeps.length], [601_000, 5 + 10])
    }).pipe(within({ stores, sandbox: speaks(() => Effect.as(Effect.sleep("5500 millis"), mp3)) }))
  })
})
