import { assert, describe, it } from "@effect/vitest"
import { JobStore } from "@kiln/core/ports"
import { Worker } from "@kiln/core/worker"
import { MemoryStores } from "@kiln/testing"
import { Deferred, Effect, type Layer } from "effect"
import { everyVerbOf } from "./support/everyVerb.ts"
import { storeDown, storesWith } from "./support/faults.ts"
import { mp3, speaks, type Stores, within } from "./support/harness.ts"
import { readJob, running, submitSpeech } from "./support/jobs.ts"
import { comesTrue } from "./support/virtualTime.ts"

type Joint = ReturnType<JobStore["Service"]["completeAndClaimJobs"]>

/** The memory stores, with something around each completion that claims, and the verbs that were called. */
const watched = (around: (joint: Joint) => Joint = (joint) => joint) => {
  const asked: Array<string> = []
  const stores: Layer.Layer<Stores> = everyVerbOf(
    storesWith(JobStore, (store) => ({
      completeAndClaimJobs: (items, request) => around(store.completeAndClaimJobs(items, request)),
    })),
    (verb, call) =>
      Effect.suspend(() => {
        if (/^(claim|complete)/.test(verb)) asked.push(verb)
        return call
      }),
  )
  return { asked, stores }
}

/** A speech provider whose jobs end when they are told to, in the order in which they began. */
const held = () => {
  const began: Array<Deferred.Deferred<void>> = []
  const speech = speaks(() =>
    Effect.suspend(() => {
      const end = Deferred.makeUnsafe<void>()
      began.push(end)
      return Effect.as(Deferred.await(end), mp3)
    }),
  )
  const end = (nth: number) =>
    Effect.suspend(() => Deferred.succeed(began[nth] ?? Deferred.makeUnsafe<void>(), undefined))
  return { began, end, speech }
}

const settle = comesTrue(Effect.succeed(false), 0)
const statusOf = (id: string) => Effect.map(readJob(id), ({ status }) => status)
const oneSlot = { concurrency: 1, limits: { perKind: {}, perProject: 0 } } as const

describe("a worker that waits for a slot", () => {
  it.effect("fills it with the completion that frees it, in one call of the store", () => {
    const { asked, stores } = watched()
    const { end, speech } = held()
    return Effect.gen(function* () {
      yield* running
      yield* settle
      const jobs = [yield* submitSpeech("a"), yield* submitSpeech("b"), yield* submitSpeech("c")]
      yield* settle
      asked.length = 0
      yield* end(0)
      yield* settle
      yield* end(1)
      yield* settle
      assert.deepStrictEqual(asked, ["completeAndClaimJobs", "completeAndClaimJobs"])
      assert.deepStrictEqual(yield* Effect.forEach(jobs, ({ id }) => statusOf(id)), ["done", "done", "processing"])
      assert.strictEqual(yield* (yield* Worker).running, 1)
      yield* end(2)
      yield* settle
      // Once for what else may have ended meanwhile, and once for the notifications of the jobs that were submitted while the slot was taken.
      assert.deepStrictEqual(asked.slice(2), ["completeAndClaimJobs", "claimJobs", "claimJobs"])
    }).pipe(within({ stores, sandbox: speech, settings: oneSlot }))
  })

  it.effect("fills it also where another one was filled just before", () => {
    const ended = { b: false }
    const { asked, stores } = watched((joint) =>
      // The job ends while the worker takes note of this answer.
      Effect.tap(joint, () => {
        const isFirst = !ended.b
        ended.b = true
        return isFirst ? Effect.forkDetach(end(1)) : Effect.void
      }),
    )
    const { end, speech } = held()
    return Effect.gen(function* () {
      yield* running
      yield* settle
      const jobs = yield* Effect.forEach(["a", "b", "c", "d"], (key) => submitSpeech(key))
      yield* settle
      asked.length = 0
      yield* end(0)
      yield* settle
      assert.deepStrictEqual(asked, ["completeAndClaimJobs", "completeAndClaimJobs"])
      assert.deepStrictEqual(yield* Effect.forEach(jobs, ({ id }) => statusOf(id)), [
        "done",
        "done",
        "processing",
        "processing",
      ])
    }).pipe(within({ stores, sandbox: speech, settings: { ...oneSlot, concurrency: 2 } }))
  })

  it.effect("asks for nothing with the completions of a worker that has free slots", () => {
    const { asked, stores } = watched()
    const { end, speech } = held()
    return Effect.gen(function* () {
      yield* running
      yield* settle
      yield* submitSpeech("a")
      yield* settle
      asked.length = 0
      yield* end(0)
      yield* settle
      assert.deepStrictEqual(asked, ["completeJobs"])
    }).pipe(within({ stores, sandbox: speech, settings: { ...oneSlot, concurrency: 2 } }))
  })

  it.effect("keeps the result if the claim beside it fails, and claims by itself", () => {
    let faults = 2
    const { asked, stores } = watched((joint) =>
      Effect.suspend(() => {
        faults -= 1
        if (faults === 1) return Effect.fail(storeDown)
        return faults === 0 ? Effect.die(new Error("a damaged record")) : joint
      }),
    )
    const { end, speech } = held()
    return Effect.gen(function* () {
      yield* running
      yield* settle
      const jobs = [yield* submitSpeech("a"), yield* submitSpeech("b"), yield* submitSpeech("c")]
      yield* settle
      for (const nth of [0, 1]) {
        asked.length = 0
        yield* end(nth)
        yield* settle
        assert.deepStrictEqual(asked, ["completeAndClaimJobs", "completeJobs", "claimJobs"])
      }
      assert.deepStrictEqual(yield* Effect.forEach(jobs, ({ id }) => statusOf(id)), ["done", "done", "processing"])
    }).pipe(within({ stores, sandbox: speech, settings: oneSlot }))
  })

  it.effect("looks again if a job arrives while the store answers: the answer cannot know it", () => {
    const through = Deferred.makeUnsafe<void>()
    let isSlow = true
    const { asked, stores } = watched((joint) =>
      Effect.tap(joint, () => {
        if (!isSlow) return Effect.void
        isSlow = false
        return Deferred.await(through)
      }),
    )
    const { began, end, speech } = held()
    return Effect.gen(function* () {
      yield* running
      yield* settle
      yield* submitSpeech("a")
      yield* settle
      asked.length = 0
      yield* end(0)
      yield* settle
      const { id } = yield* submitSpeech("b")
      yield* settle
      assert.deepStrictEqual(asked, ["completeAndClaimJobs"])
      yield* Deferred.succeed(through, undefined)
      yield* settle
      assert.strictEqual(began.length, 2)
      assert.strictEqual(yield* statusOf(id), "processing")
    }).pipe(within({ stores, sandbox: speech, settings: oneSlot }))
  })
})

describe("slots that are filled with completions", () => {
  it.effect("hold no more jobs than there are, whatever comes together", () => {
    let most = 0
    let running_ = 0
    const speech = speaks(() =>
      Effect.acquireUseRelease(
        Effect.sync(() => {
          running_ += 1
          most = Math.max(most, running_)
        }),
        () => Effect.as(Effect.yieldNow, mp3),
        () => Effect.sync(() => void (running_ -= 1)),
      ),
    )
    return Effect.gen(function* () {
      yield* running
      yield* settle
      const jobs = yield* Effect.forEach(
        Array.from({ length: 12 }, (_, n) => `k${n}`),
        (key) => submitSpeech(key),
        { concurrency: "unbounded" },
      )
      assert.isTrue(
        yield* comesTrue(
          Effect.map(
            Effect.forEach(jobs, ({ id }) => statusOf(id)),
            (all) => all.every((status) => status === "done"),
          ),
          0,
        ),
      )
      assert.isAtMost(most, 3)
      assert.strictEqual(yield* (yield* Worker).running, 0)
    }).pipe(within({ stores: MemoryStores.layer, sandbox: speech, settings: { ...oneSlot, concurrency: 3 } }))
  })
})
