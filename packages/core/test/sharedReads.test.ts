import { assert, describe, it } from "@effect/vitest"
import { type JobId, StoreUnavailable } from "@kiln/core/domain"
import { Engine, layerEngine, layerCrypto } from "@kiln/core/effect"
import { JobStore } from "@kiln/core/ports"
import { MemoryBlobStore, MemoryStores } from "@kiln/testing"
import { Deferred, Effect, Exit, Fiber, Layer } from "effect"
import { grantOf, kind, principal } from "./support/harness.ts"

/** Memory stores whose readers share calls, as those of a server do. Records what each call of `pollJobs` reads, after `before`. */
const recording = (before: (jobs: ReadonlyArray<JobId>) => Effect.Effect<void, StoreUnavailable>) => {
  const calls: Array<ReadonlyArray<JobId>> = []
  const layer = Layer.effect(
    JobStore,
    Effect.map(JobStore, (store) =>
      JobStore.of({
        ...store,
        parallelReads: 2,
        pollJobs: (items) =>
          Effect.suspend(() => {
            const jobs = items.map(({ jobId }) => jobId)
            calls.push(jobs)
            return Effect.andThen(before(jobs), store.pollJobs(items))
          }),
      }),
    ),
  ).pipe(Layer.provideMerge(MemoryStores.layer))
  return { calls, layer }
}

const owner = principal()

/** Runs `use` with an engine on such stores, which has this many jobs. */
const withJobs = <A, E>(
  count: number,
  { layer }: ReturnType<typeof recording>,
  use: (engine: Engine["Service"], jobs: ReadonlyArray<JobId>) => Effect.Effect<A, E>,
) =>
  Effect.gen(function* () {
    const engine = yield* Engine
    const jobs: Array<JobId> = []
    for (let n = 0; n < count; n += 1) {
      const { job } = yield* engine.createJob(grantOf(owner), kind("speech_synthesis"), { input: "hello" }, `key-${n}`)
      jobs.push(job.id)
    }
    return yield* use(engine, jobs)
  }).pipe(
    Effect.provide(layerEngine.pipe(Layer.provideMerge(Layer.mergeAll(layer, MemoryBlobStore.layer, layerCrypto)))),
  )

const startPolls = (engine: Engine["Service"], jobs: ReadonlyArray<JobId>) =>
  Effect.forEach(jobs, (job) => Effect.forkChild(engine.pollJob(owner, job), { startImmediately: true }))

const turnsUntil = Effect.fnUntraced(function* (happened: () => boolean) {
  for (let turns = 0; turns < 50 && !happened(); turns += 1) yield* Effect.yieldNow
})

describe("polls of a store whose readers share calls", () => {
  it.effect("those of one turn are one call, and each gets its own job", () => {
    const recorded = recording(() => Effect.void)
    return withJobs(20, recorded, (engine, jobs) =>
      Effect.gen(function* () {
        const other = yield* Effect.forkChild(Effect.exit(engine.pollJob(principal("sandbox", "b"), jobs[0] ?? "")), {
          startImmediately: true,
        })
        const polls = yield* startPolls(
          engine,
          [...jobs, jobs[3] ?? jobs[0]].filter((job) => job !== undefined),
        )
        const found = yield* Effect.forEach(polls, Fiber.join)
        assert.deepStrictEqual(
          found.map(({ id }) => id),
          [...jobs, jobs[3]],
        )
        assert.isTrue(Exit.isFailure(yield* Fiber.join(other)), "another caller's job is not found")
        assert.deepStrictEqual(
          recorded.calls.map((call) => call.length),
          [22],
        )
      }),
    )
  })

  it.effect("those that arrive later are not answered from a call in progress, and two calls run at once", () =>
    Effect.gen(function* () {
      const free = yield* Deferred.make<void>()
      const recorded = recording(() => Deferred.await(free))
      yield* withJobs(4, recorded, (engine, jobs) =>
        Effect.gen(function* () {
          const polls = []
          for (const job of jobs) {
            polls.push(...(yield* startPolls(engine, [job])))
            yield* turnsUntil(() => recorded.calls.flat().includes(job))
          }
          assert.deepStrictEqual(
            recorded.calls.map((call) => call.length),
            [1, 1],
          )
          yield* Deferred.succeed(free, undefined)
          yield* Effect.forEach(polls, Fiber.join)
          assert.deepStrictEqual(
            recorded.calls.map((call) => call.length),
            [1, 1, 2],
          )
        }),
      )
    }),
  )

  it.effect("an interrupted reader disturbs nobody, and a damaged row only its own reader", () => {
    const damaged: Array<JobId> = []
    const recorded = recording((jobs) =>
      jobs.some((job) => damaged.includes(job)) ? Effect.die(new TypeError("a damaged row")) : Effect.void,
    )
    return withJobs(4, recorded, (engine, jobs) =>
      Effect.gen(function* () {
        damaged.push(...jobs.slice(1, 2))
        const polls = yield* startPolls(engine, jobs)
        yield* Effect.forEach(polls.slice(0, 1), Fiber.interrupt)
        const exits = yield* Effect.forEach(polls, Fiber.await)
        assert.deepStrictEqual(exits.map(Exit.isSuccess), [false, false, true, true])
        assert.isTrue(exits.slice(1, 2).every(Exit.hasDies))
      }),
    )
  })

  it.effect("a failure of the store reaches every reader, and the next poll is a new call", () => {
    let fails = true
    const recorded = recording(() =>
      fails ? Effect.fail(new StoreUnavailable({ operation: "test", cause: "gone" })) : Effect.void,
    )
    return withJobs(3, recorded, (engine, jobs) =>
      Effect.gen(function* () {
        const exits = yield* Effect.forEach(yield* startPolls(engine, jobs), Fiber.await)
        assert.deepStrictEqual(exits.map(Exit.hasFails), [true, true, true])
        fails = false
        assert.strictEqual((yield* engine.pollJob(owner, jobs[0] ?? "")).id, jobs[0])
        assert.deepStrictEqual(
          recorded.calls.map((call) => call.length),
          [3, 1],
        )
      }),
    )
  })
})
