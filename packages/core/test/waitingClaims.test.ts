import { assert, describe, it } from "@effect/vitest"
import { BlobUnavailable, StoreUnavailable } from "@kiln/core"
import { Engine } from "@kiln/core/effect"
import { type AttemptContext, type AttemptError, JobKind, JobKinds } from "@kiln/core/kinds"
import { JobStore, Switchboard } from "@kiln/core/ports"
import {
  effectProvider,
  providerBroken,
  ProviderPostponed,
  type ProviderError,
  providerPort,
  providerUnavailable,
} from "@kiln/core/providers"
import { layerSweeps } from "@kiln/core/worker"
import { Clock, Effect, Layer, Schema } from "effect"
import { storesWith } from "./support/faults.ts"
import { grantOf, within } from "./support/harness.ts"
import { readJob, running } from "./support/jobs.ts"
import { allDone, live, statusesOf } from "./support/liveSpeech.ts"
import { comesTrue, passEvenly } from "./support/virtualTime.ts"

const result = { output: {}, files: [], usage: {} }
const voices = providerPort({ name: "voices", check: String })

/** A kind named `parent` that does this. */
const doing = (run: (context: AttemptContext<{}, typeof voices>) => Effect.Effect<unknown, AttemptError>, more = {}) =>
  JobKind({
    name: "parent",
    keyScope: "audio.create",
    request: Schema.Struct({}),
    ...more,
    run: (context) => Effect.as(run(context as never), result),
  })

let childRuns = 0
const child = JobKind({
  name: "child",
  keyScope: "audio.create",
  request: Schema.Struct({}),
  switches: ["ai"],
  run: () =>
    Effect.sync(() => {
      childRuns += 1
      return result
    }),
})
const seconds = 60

/** Counts the claims of the jobs. */
const counted = () => {
  const seen = { claims: 0 }
  const stores = storesWith(JobStore, (store) => ({
    claimJobs: (request) =>
      Effect.tap(store.claimJobs(request), ({ claims }) => Effect.sync(() => void (seen.claims += claims.length))),
  }))
  return { seen, stores }
}

/** More than the worker has slots: its claims are then full, and it claims again at once. */
const count = 20
const submitParents = (kind: JobKind) =>
  Effect.flatMap(Engine, (engine) =>
    Effect.forEach(Array.from({ length: count }), (_, n) =>
      Effect.map(engine.createJob(grantOf(live), kind, {}, `k${n}`), ({ job }) => job),
    ),
  )

const servesChildren = Effect.flatMap(Switchboard, (board) =>
  board.publishWorker({ workerId: "w", liveKinds: ["parent", "child"], providers: [], ttlMs: 3_600_000 }),
)
const setAi = (isOn: boolean) => Effect.flatMap(Switchboard, (board) => board.setSwitch("ai", isOn))

describe("a parent whose children may not be created", () => {
  it.effect("looks once a second, without a slot and a failure, and goes on when the switch is on", () => {
    const parent = doing(({ children }) => children("clips", "child", [{}, {}]))
    const { seen, stores } = counted()
    return Effect.gen(function* () {
      yield* servesChildren
      const jobs = yield* submitParents(parent)
      yield* running
      yield* passEvenly(seconds * 1_000, seconds)
      assert.isAtLeast(seen.claims, count * (seconds / 2))
      assert.isAtMost(seen.claims, count * (seconds + 2))
      for (const { id } of jobs) {
        const { failures, lostWorkers, status } = yield* readJob(id, live)
        assert.deepStrictEqual([status, failures, lostWorkers], ["processing", 0, 0])
      }
      yield* setAi(true)
      // The worker sees within a second that the switch is on, and polls within another.
      yield* passEvenly(2_500, 250)
      assert.strictEqual(childRuns, 2 * count)
      assert.isTrue(yield* comesTrue(allDone(jobs), "10 seconds"))
    }).pipe(within({ stores }), Effect.provideService(JobKinds, [parent, child]))
  })

  it.effect("fails at its queue limit", () => {
    const parent = doing(({ children }) => children("clips", "child", [{}]))
    return Effect.gen(function* () {
      yield* servesChildren
      const jobs = yield* submitParents(parent)
      yield* running
      yield* Layer.build(layerSweeps)
      const areOver = Effect.map(statusesOf(jobs), (statuses) => statuses.every((status) => status === "failed"))
      assert.isTrue(yield* comesTrue(areOver, "2 minutes"))
      for (const { id } of jobs) assert.strictEqual((yield* readJob(id, live)).errorCode, "queue_timeout")
    }).pipe(within({ settings: { queueLimitMs: 60_000 } }), Effect.provideService(JobKinds, [parent, child]))
  })
})

describe("a job that waits is claimed about once a second, at most", () => {
  const calls = doing(({ ask }) => ask.voices({}), { providers: [voices] })
  const reasons = {
    "its own switch is off": [
      doing(({ step }) => step("one", Effect.succeed(null)), { switches: ["ai"] }),
      Effect.never,
    ],
    "its provider is broken": [calls, Effect.fail(providerBroken("quota", "none left"))],
    "its provider is unavailable": [calls, Effect.fail(providerUnavailable("no connection"))],
    "its provider postpones it": [calls, Effect.fail(new ProviderPostponed({ delayMs: 1_000 }))],
    "the blobs are unavailable": [
      doing(() => Effect.fail(new BlobUnavailable({ operation: "put", cause: "gone" }))),
      Effect.never,
    ],
    "the store is unavailable": [
      doing(() => Effect.fail(new StoreUnavailable({ operation: "any", cause: "gone" }))),
      Effect.never,
    ],
    "its children are not finished": [doing(({ children }) => children("clips", "stuck", [{}])), Effect.never],
  } as const
  const stuck = JobKind({
    name: "stuck",
    keyScope: "audio.create",
    request: Schema.Struct({}),
    run: () => Effect.never,
  })
  for (const [reason, [kind, answer]] of Object.entries(reasons))
    it.effect(reason, () => {
      const { seen, stores } = counted()
      const speak = effectProvider(voices, () => answer as Effect.Effect<string, ProviderError>)
      return Effect.gen(function* () {
        yield* setAi(true)
        yield* submitParents(kind)
        yield* running
        yield* passEvenly(1_000, 1)
        yield* setAi(false)
        yield* passEvenly(seconds * 1_000, seconds)
        assert.isAtLeast(seen.claims, 1)
        assert.isAtMost(seen.claims, count * (seconds + 2))
      }).pipe(within({ stores, live: { voices: speak } }), Effect.provideService(JobKinds, [kind, stuck]))
    })
})

describe("a worker that is idle otherwise", () => {
  it.effect("runs a deferred job when it is due, not at its next poll", () => {
    const times: Array<number> = []
    const later = doing(() =>
      Effect.flatMap(Clock.currentTimeMillis, (now) => {
        times.push(now)
        return times.length < 5 ? Effect.fail(new ProviderPostponed({ delayMs: 200 })) : Effect.void
      }),
    )
    return Effect.gen(function* () {
      yield* running
      yield* passEvenly(5_000, 5)
      yield* Effect.flatMap(Engine, (engine) => engine.createJob(grantOf(live), later, {}, "one"))
      yield* passEvenly(2_000, 200)
      assert.strictEqual(times.length, 5)
      for (const [n, time] of times.slice(1).entries()) assert.isAtMost(time - (times[n] ?? 0), 220)
    }).pipe(within(), Effect.provideService(JobKinds, [later]))
  })
})
