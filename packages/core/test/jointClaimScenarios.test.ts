import { assert, describe, it } from "@effect/vitest"
import { JobStore, Switchboard, WakeUp } from "@kiln/core/ports"
import { Worker } from "@kiln/core/worker"
import { MemoryStores } from "@kiln/testing"
import { Deferred, Effect, Exit, Fiber, Layer } from "effect"
import { storeDown, storesWith } from "./support/faults.ts"
import { mp3, speaks, type Stores, within } from "./support/harness.ts"
import { finished, readJob, running, submitSpeech } from "./support/jobs.ts"
import { comesTrue, passTime } from "./support/virtualTime.ts"
import { makeChannel } from "./support/wakeUps.ts"

type Joint = ReturnType<JobStore["Service"]["createAndClaimJobs"]>

const settle = comesTrue(Effect.succeed(false), 0)

/** The memory stores, with something around each creation that claims. */
const joining = (around: (joint: Joint) => Joint): Layer.Layer<Stores> =>
  storesWith(JobStore, (store) => ({
    createAndClaimJobs: (jobs, request) => around(store.createAndClaimJobs(jobs, request)),
  }))

const counted = () => {
  const calls = { count: 0 }
  const speech = speaks(() =>
    Effect.sync(() => {
      calls.count += 1
      return mp3
    }),
  )
  return { calls, speech }
}

/** A kind is paused by another process after this worker has claimed with a creation. */
const paused = Effect.suspend(() => {
  const { calls, speech } = counted()
  return Effect.gen(function* () {
    const board = yield* Switchboard
    yield* running
    yield* settle
    yield* submitSpeech("first")
    yield* passTime("10 seconds")
    yield* board.pauseKind("speech_synthesis", true)
    yield* passTime("1 seconds")
    const { id } = yield* submitSpeech("second")
    yield* passTime("1 minutes")
    return `${(yield* readJob(id)).status}, ${calls.count} calls`
  }).pipe(within({ sandbox: speech }))
})

/** The worker is woken while a creation claims for it. */
const woken = Effect.suspend(() => {
  const through = Deferred.makeUnsafe<void>()
  let claims = 0
  const stores = storesWith(JobStore, (store) => ({
    createAndClaimJobs: (jobs, request) =>
      Effect.tap(store.createAndClaimJobs(jobs, request), () => Deferred.await(through)),
    claimJobs: (request) =>
      Effect.suspend(() => {
        claims += 1
        return store.claimJobs(request)
      }),
  }))
  return Effect.gen(function* () {
    yield* running
    yield* settle
    claims = 0
    const submitted = yield* Effect.forkChild(submitSpeech("first"))
    yield* settle
    yield* (yield* WakeUp).notify
    yield* settle
    const before = claims
    yield* Deferred.succeed(through, undefined)
    yield* Fiber.join(submitted)
    return before
  }).pipe(within({ stores, sandbox: speaks(() => Effect.never) }))
})

/** The worker has one slot, and two jobs are created at once. */
const told = Effect.suspend(() => {
  const channel = makeChannel()
  const stores = Layer.merge(
    MemoryStores.layer,
    Layer.sync(WakeUp, () => channel.join()),
  )
  return Effect.gen(function* () {
    yield* running
    yield* settle
    yield* Effect.all([submitSpeech("first"), submitSpeech("second")], { concurrency: 2 })
    yield* settle
    return channel.said
  }).pipe(
    within({
      stores,
      sandbox: speaks(() => Effect.never),
      settings: { concurrency: 1, limits: { perKind: {}, perProject: 0 } },
    }),
  )
})

/** The claim meets a damaged record. */
const damaged = Effect.gen(function* () {
  yield* running
  yield* settle
  const submitted = yield* Effect.exit(submitSpeech("k"))
  return Exit.isSuccess(submitted) ? submitted.value.status : "refused"
}).pipe(within({ stores: joining(() => Effect.die(new Error("damaged"))) }))

/** The answer is lost after the commit, and the caller repeats its request. */
const lost = Effect.suspend(() => {
  const { calls, speech } = counted()
  let isLost = true
  const stores = joining((joint) =>
    Effect.flatMap(joint, (answer) => {
      if (!isLost) return Effect.succeed(answer)
      isLost = false
      return Effect.fail(storeDown)
    }),
  )
  return Effect.gen(function* () {
    yield* running
    yield* settle
    yield* Effect.exit(submitSpeech("k"))
    yield* passTime("5 seconds")
    const { id } = yield* submitSpeech("k")
    yield* settle
    const before = calls.count
    const { attempts, lostWorkers } = yield* finished(id, "2 minutes")
    return `${before} calls, then ${calls.count}, ${attempts} attempts, ${lostWorkers} lost worker`
  }).pipe(within({ stores, sandbox: speech }))
})

/** The worker stops while a creation claims for it. */
const stopping = Effect.suspend(() => {
  const through = Deferred.makeUnsafe<void>()
  const stores = joining((joint) => Effect.tap(joint, () => Deferred.await(through)))
  return Effect.gen(function* () {
    const worker = yield* Worker
    const run = yield* Effect.forkChild(worker.run)
    yield* settle
    const submitted = yield* Effect.forkChild(submitSpeech("k"))
    yield* settle
    const stopped = yield* Effect.forkChild(Fiber.interrupt(run))
    yield* settle
    yield* Deferred.succeed(through, undefined)
    const { id } = yield* Fiber.join(submitted)
    yield* passTime("5 seconds")
    yield* Fiber.join(stopped)
    return (yield* readJob(id)).held
  }).pipe(within({ stores, sandbox: speaks(() => Effect.never), settings: { drainMs: 1_000 } }))
})

describe("a creation that claims for an idle worker", () => {
  it.effect("starts no job of a kind that was paused since", () =>
    Effect.map(paused, (found) => assert.strictEqual(found, "queued, 1 calls")),
  )
  it.effect("keeps the worker from claiming meanwhile", () =>
    Effect.map(woken, (claims) => assert.strictEqual(claims, 0)),
  )
  it.effect("wakes other workers for the jobs that it left", () =>
    Effect.map(told, (said) => assert.strictEqual(said, 1)),
  )
  it.effect("succeeds although its claim meets a damaged job", () =>
    Effect.map(damaged, (found) => assert.strictEqual(found, "queued")),
  )
  it.effect("whose answer was lost starts its job once, when the lease has ended", () =>
    Effect.map(lost, (found) => assert.strictEqual(found, "0 calls, then 1, 2 attempts, 1 lost worker")),
  )
  it.effect("gives its job back when the worker stops", () => Effect.map(stopping, (held) => assert.isFalse(held)))
})
