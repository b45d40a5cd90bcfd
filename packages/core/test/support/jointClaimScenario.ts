// Run by jointClaims.proof.ts in a process of its own, with and without a bug planted: runs the engine and an idle worker in
// virtual time, and prints in one line the outcome of each scenario.
import { JobStore, Switchboard, WakeUp } from "@kiln/core/ports"
import { Worker } from "@kiln/core/worker"
import { MemoryStores } from "@kiln/testing"
import { Deferred, Effect, Exit, Fiber, Layer } from "effect"
import { storeDown, storesWith } from "./faults.ts"
import { mp3, speaks, type Stores, within } from "./harness.ts"
import { finished, readJob, running, submitSpeech } from "./jobs.ts"
import { comesTrue, passTime } from "./virtualTime.ts"
import { makeChannel } from "./wakeUps.ts"

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
    return `paused: ${(yield* readJob(id)).status}, ${calls.count} calls`
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
    return `woken: ${before} claims before the answer`
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
    return `told: ${channel.said}`
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
  return `damaged: ${Exit.isSuccess(submitted) ? submitted.value.status : "refused"}`
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
    return `lost: ${before} calls, then ${calls.count}, ${attempts} attempts, ${lostWorkers} lost worker`
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
    return `stopped: ${(yield* readJob(id)).held ? "held" : "released"}`
  }).pipe(within({ stores, sandbox: speaks(() => Effect.never), settings: { drainMs: 1_000 } }))
})

const report: ReadonlyArray<string> = await Effect.runPromise(
  Effect.all([paused, woken, told, damaged, lost, stopping].map((scenario) => Effect.orDie(Effect.scoped(scenario)))),
)
console.log(report.join("; "))
