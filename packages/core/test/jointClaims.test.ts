import { assert, describe, it } from "@effect/vitest"
import { type ClaimResult, JobStore, Switchboard, WakeUp } from "@kiln/core/ports"
import { ProviderFailure } from "@kiln/core/providers"
import { Worker } from "@kiln/core/worker"
import { MemoryStores } from "@kiln/testing"
import { Deferred, Effect, Fiber, Layer } from "effect"
import { everyVerbOf } from "./support/everyVerb.ts"
import { storeDown, storesClaimingApart, storesWith } from "./support/faults.ts"
import { mp3, speaks, type Stores, within } from "./support/harness.ts"
import { finished, readJob, running, submitSpeech } from "./support/jobs.ts"
import { comesTrue, passTime } from "./support/virtualTime.ts"
import { makeChannel } from "./support/wakeUps.ts"

type Answer = Effect.Success<ReturnType<JobStore["Service"]["createAndClaimJobs"]>>
type Joint = Effect.Effect<Answer, typeof storeDown>

/** The memory stores, with something around each creation that claims. */
const joining = (
  around: (joint: Joint) => Joint,
  more: (store: JobStore["Service"]) => Partial<JobStore["Service"]> = () => ({}),
): Layer.Layer<Stores> =>
  storesWith(JobStore, (store) => ({
    createAndClaimJobs: (jobs, request) => around(store.createAndClaimJobs(jobs, request)),
    ...more(store),
  }))

/** A speech provider that counts its calls. */
const counted = () => {
  const calls: Array<string> = []
  const speech = speaks((_, { jobId }) =>
    Effect.sync(() => {
      calls.push(jobId)
      return mp3
    }),
  )
  return { calls, speech }
}

const settle = comesTrue(Effect.succeed(false), 0)
const isDone = (id: string) => Effect.map(readJob(id), ({ status }) => status === "done")

describe("an idle worker in the process of a creation", () => {
  it.effect("starts the created job after one call of the store, without a notification", () => {
    const asked: Array<string> = []
    const channel = makeChannel()
    const stores = everyVerbOf(MemoryStores.layer, (verb, call) =>
      Effect.suspend(() => {
        asked.push(verb)
        return call
      }),
    )
    return Effect.gen(function* () {
      yield* running
      yield* settle
      asked.length = 0
      const { id } = yield* submitSpeech("k")
      assert.isTrue(yield* comesTrue(isDone(id), 0))
      assert.deepStrictEqual(
        // The lineage is announced before the first file.
        asked.filter((verb) => verb !== "findJobs" && !verb.endsWith("Lineage")),
        ["createAndClaimJobs", "completeJobs"],
      )
      assert.strictEqual(channel.said, 0)
    }).pipe(
      within({
        stores: Layer.merge(
          stores,
          Layer.sync(WakeUp, () => channel.join()),
        ),
      }),
    )
  })

  it.effect("looks again for a job that it deferred, at its time", () => {
    let calls = 0
    const busy = new ProviderFailure({ errorCode: "provider_unavailable", retry: true, detail: "busy" })
    const speech = speaks(() => Effect.suspend(() => (calls++ === 0 ? Effect.fail(busy) : Effect.succeed(mp3))))
    return Effect.gen(function* () {
      yield* running
      yield* passTime("2 minutes")
      const { id } = yield* submitSpeech("k")
      yield* settle
      assert.strictEqual(calls, 1)
      yield* passTime("3 seconds")
      assert.isTrue(yield* isDone(id))
    }).pipe(within({ sandbox: speech }))
  })

  it.effect("tells other workers of jobs that it has no slot for, and takes them when one is free", () => {
    const channel = makeChannel()
    const ends = Deferred.makeUnsafe<void>()
    const speech = speaks(() => Effect.as(Deferred.await(ends), mp3))
    return Effect.gen(function* () {
      const worker = yield* Worker
      yield* running
      yield* settle
      const first = yield* submitSpeech("first")
      yield* settle
      assert.deepStrictEqual([yield* worker.running, channel.said], [1, 0])
      const second = yield* submitSpeech("second")
      yield* settle
      assert.deepStrictEqual([yield* worker.running, channel.said], [1, 1])
      yield* Deferred.succeed(ends, undefined)
      yield* settle
      assert.deepStrictEqual([yield* isDone(first.id), yield* isDone(second.id)], [true, true])
    }).pipe(
      within({
        stores: Layer.merge(
          MemoryStores.layer,
          Layer.sync(WakeUp, () => channel.join()),
        ),
        sandbox: speech,
        settings: { concurrency: 1, limits: { perKind: {}, perProject: 0 } },
      }),
    )
  })

  it.effect("does not start a paused kind", () => {
    const { calls, speech } = counted()
    return Effect.gen(function* () {
      const board = yield* Switchboard
      yield* running
      yield* passTime("10 seconds")
      // By another process, so that only the board tells of it: within half a second.
      yield* board.pauseKind("speech_synthesis", true)
      yield* passTime("1 seconds")
      const { id } = yield* submitSpeech("k")
      yield* passTime("1 minutes")
      assert.deepStrictEqual([(yield* readJob(id)).status, calls], ["queued", []])
      yield* board.pauseKind("speech_synthesis", false)
      assert.strictEqual((yield* finished(id, "1 minutes")).status, "done")
    }).pipe(within({ sandbox: speech }))
  })

  it.effect("does not delay a creation by reading the switchboard", () => {
    let hangs = false
    let reads = 0
    const stores = everyVerbOf(MemoryStores.layer, (verb, call) =>
      Effect.suspend(() => {
        if (verb !== "readBoard" || !hangs) return call
        reads += 1
        return Effect.never
      }),
    )
    return Effect.gen(function* () {
      yield* running
      yield* passTime("10 seconds")
      hangs = true
      yield* passTime("700 millis")
      const { id } = yield* submitSpeech("k")
      assert.strictEqual((yield* readJob(id)).status, "queued")
      assert.isAbove(reads, 0)
    }).pipe(within({ stores }))
  })
})

describe("a creation whose claim goes wrong", () => {
  it.effect("starts no job when its answer is lost; the lease ends, and the job runs once", () => {
    const { calls, speech } = counted()
    let lost = 1
    const stores = joining((joint) =>
      Effect.flatMap(joint, (answer) => (lost-- > 0 ? Effect.fail(storeDown) : Effect.succeed(answer))),
    )
    return Effect.gen(function* () {
      yield* running
      yield* settle
      const refused = yield* Effect.exit(submitSpeech("k"))
      assert.strictEqual(refused._tag, "Failure")
      yield* passTime("20 seconds")
      assert.deepStrictEqual(calls, [])
      // A repeat of the caller finds the job, and claims nothing: it is held.
      const { id } = yield* submitSpeech("k")
      assert.deepInclude(yield* readJob(id), { status: "processing", attempts: 1, token: 1 })
      const done = yield* finished(id, "2 minutes")
      assert.deepInclude(done, { status: "done", attempts: 2, lostWorkers: 1 })
      assert.deepStrictEqual(calls, [id])
    }).pipe(within({ stores, sandbox: speech }))
  })

  it.effect("creates the jobs all the same if the claim is a defect", () => {
    let broken = true
    const stores = joining((joint) => (broken ? Effect.die(new Error("a damaged record")) : joint))
    return Effect.gen(function* () {
      yield* running
      yield* settle
      const { id } = yield* submitSpeech("k")
      broken = false
      assert.isTrue(yield* comesTrue(isDone(id), 0))
    }).pipe(within({ stores }))
  })

  it.effect("leaves the jobs to an ordinary claim if the store did not claim", () =>
    Effect.gen(function* () {
      yield* running
      yield* settle
      const { id } = yield* submitSpeech("k")
      assert.isTrue(yield* comesTrue(isDone(id), 0))
    }).pipe(within({ stores: storesClaimingApart })),
  )

  it.effect("starts nothing that is answered after a lease, and does not hold the worker up", () => {
    const { calls, speech } = counted()
    let slow = true
    const stores = joining((joint) =>
      Effect.suspend(() => {
        if (!slow) return joint
        slow = false
        return Effect.delay(Effect.flatMap(joint, withoutLease), "40 seconds")
      }),
    )
    const withoutLease = ({ claimed, created }: Answer) =>
      Effect.succeed({ created, claimed: claimed && endedLeases(claimed) })
    const endedLeases = (claimed: ClaimResult): ClaimResult => ({
      ...claimed,
      claims: claimed.claims.map((claim) => ({ ...claim, leaseRemainingMs: 0 })),
    })
    return Effect.gen(function* () {
      const worker = yield* Worker
      yield* running
      yield* passTime("10 minutes")
      const submitted = yield* Effect.forkChild(submitSpeech("k"))
      yield* passTime("35 seconds")
      assert.isAbove((yield* worker.nextClaimBy) ?? 0, 630_000)
      yield* passTime("5 seconds")
      const { id } = yield* Fiber.join(submitted)
      yield* settle
      assert.deepStrictEqual(calls, [])
      assert.deepInclude(yield* finished(id, "2 minutes"), { status: "done" })
      assert.deepStrictEqual(calls, [id])
    }).pipe(within({ stores, sandbox: speech }))
  })
})

describe("a creation that claims while its worker", () => {
  /** Stores whose first joint answer comes when it is let through, and the number of other claims. */
  const held = () => {
    const through = Deferred.makeUnsafe<void>()
    const claims = { count: 0 }
    let first = true
    const wait = (joint: Joint): Joint =>
      Effect.suspend(() => {
        if (!first) return joint
        first = false
        return Effect.tap(joint, () => Deferred.await(through))
      })
    const stores = joining(wait, ({ claimJobs }) => ({
      claimJobs: (request) =>
        Effect.suspend(() => {
          claims.count += 1
          return claimJobs(request)
        }),
    }))
    return { claims, stores, through }
  }

  it.effect("is woken claims nothing else before its answer: both would fill the same slots", () => {
    const { claims, stores, through } = held()
    return Effect.gen(function* () {
      const worker = yield* Worker
      yield* running
      yield* settle
      claims.count = 0
      const submitted = yield* Effect.forkChild(submitSpeech("k"))
      yield* settle
      yield* (yield* WakeUp).notify
      yield* settle
      assert.deepStrictEqual([claims.count, yield* worker.running], [0, 0])
      yield* Deferred.succeed(through, undefined)
      const { id } = yield* Fiber.join(submitted)
      assert.isTrue(yield* comesTrue(isDone(id), 0))
      assert.strictEqual(claims.count, 1)
    }).pipe(within({ stores }))
  })

  it.effect("stops has its job released at once", () => {
    const { stores, through } = held()
    const speech = speaks(() => Effect.never)
    return Effect.gen(function* () {
      const worker = yield* Worker
      const run = yield* Effect.forkChild(worker.run)
      yield* settle
      const submitted = yield* Effect.forkChild(submitSpeech("k"))
      yield* settle
      const stopping = yield* Effect.forkChild(Fiber.interrupt(run))
      yield* settle
      yield* Deferred.succeed(through, undefined)
      const { id } = yield* Fiber.join(submitted)
      yield* passTime("1 minutes")
      yield* Fiber.join(stopping)
      assert.deepInclude(yield* readJob(id), { held: false, attempts: 1, lostWorkers: 0, failures: 0 })
    }).pipe(within({ stores, sandbox: speech, settings: { drainMs: 1_000 } }))
  })
})
