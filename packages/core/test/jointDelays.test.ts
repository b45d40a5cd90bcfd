import { assert, describe, it } from "@effect/vitest"
import { StoreUnavailable } from "@kiln/core/domain"
import { JobStore, ShortLockWait } from "@kiln/core/ports"
import { ProviderFailure } from "@kiln/core/providers"
import { Worker } from "@kiln/core/worker"
import { Deferred, Effect } from "effect"
import { everyVerbOf } from "./support/everyVerb.ts"
import { storesClaimingApart, storesWith } from "./support/faults.ts"
import { mp3, principal, speaks, within } from "./support/harness.ts"
import { openBoard, running, submitSpeech } from "./support/jobs.ts"
import { comesTrue, passTime } from "./support/virtualTime.ts"

const held = () => {
  const began: Array<{ id: string; end: Deferred.Deferred<void, ProviderFailure> }> = []
  const speech = speaks((_, { jobId }) =>
    Effect.suspend(() => {
      const end = Deferred.makeUnsafe<void, ProviderFailure>()
      began.push({ id: jobId, end })
      return Effect.as(Deferred.await(end), mp3)
    }),
  )
  return { began, speech }
}
const settle = comesTrue(Effect.succeed(false), 0)
const noLimits = { perKind: {}, perProject: 0 } as const

const contended = new StoreUnavailable({ operation: "test", cause: "locked", contended: true })

describe("a severed completion", () => {
  it.effect("does not keep the worker from claiming for other slots", () => {
    const unlocked = Deferred.makeUnsafe<void>()
    let lockedId = ""
    const asked: Array<string> = []
    const stores = everyVerbOf(
      storesWith(JobStore, (store) => {
        const lock = (items: ReadonlyArray<{ jobId: string }>) =>
          Effect.gen(function* () {
            if (!items.some(({ jobId }) => jobId === lockedId)) return
            if (yield* ShortLockWait) return yield* Effect.fail(contended)
            if (items.length > 1) return yield* Effect.fail(contended)
            yield* Deferred.await(unlocked)
          })
        return {
          claimJobs: store.claimJobs,
          completeJobs: (items) => Effect.andThen(lock(items), store.completeJobs(items)),
          completeAndClaimJobs: (items, request) =>
            Effect.andThen(lock(items), store.completeAndClaimJobs(items, request)),
        }
      }),
      (verb, call) =>
        Effect.suspend(() => {
          if (/^(claim|complete)/.test(verb)) asked.push(verb)
          return call
        }),
    )
    const { began, speech } = held()
    return Effect.gen(function* () {
      yield* running
      yield* settle
      const jobs = []
      for (const key of ["a", "b", "c", "d"]) {
        jobs.push(yield* submitSpeech(key))
        yield* settle
      }
      assert.strictEqual(began.length, 2)
      lockedId = began[0]!.id
      yield* Deferred.succeed(began[0]!.end, undefined)
      yield* Deferred.succeed(began[1]!.end, undefined)
      yield* settle
      yield* passTime("3 seconds")
      let waited = 3
      while (waited < 40 && began.length < 3) {
        yield* passTime("1 seconds")
        waited += 1
      }
      yield* Deferred.succeed(unlocked, undefined)
      yield* settle
      assert.strictEqual(waited, 3)
    }).pipe(within({ stores, sandbox: speech, settings: { concurrency: 2, limits: noLimits } }))
  })
})

const watching = (through?: Deferred.Deferred<void>) => {
  const asked: Array<string> = []
  let slow = through !== undefined
  const stores = everyVerbOf(
    storesWith(JobStore, (store) => ({
      completeAndClaimJobs: (items, request) =>
        Effect.tap(store.completeAndClaimJobs(items, request), () => {
          if (!slow || through === undefined) return Effect.void
          slow = false
          return Deferred.await(through)
        }),
    })),
    (verb, call) =>
      Effect.suspend(() => {
        if (/^(claim|complete|fail|createAnd)/.test(verb)) asked.push(verb)
        return call
      }),
  )
  return { asked, stores }
}

/** Milliseconds of virtual time until the second slot is filled again, once each job that ends. */
const refill = (apart: boolean, concurrency: number) => {
  const { asked, stores } = watching()
  const { began, speech } = held()
  return Effect.gen(function* () {
    const worker = yield* Worker
    yield* running
    yield* settle
    for (const key of ["a", "b", "c", "d", "e", "f"]) {
      yield* submitSpeech(key)
      yield* settle
    }
    yield* passTime("3 seconds")
    const waits: Array<number> = []
    for (let n = 0; n < 3; n++) {
      asked.length = 0
      assert.strictEqual(yield* worker.running, 2)
      yield* Deferred.succeed(began[n]!.end, undefined)
      yield* settle
      let ms = 0
      while ((yield* worker.running) < 2 && ms < 60_000) {
        yield* passTime("100 millis")
        ms += 100
      }
      waits.push(ms)
      yield* settle
    }
    return waits
  }).pipe(
    within({
      stores: apart ? storesClaimingApart : stores,
      sandbox: speech,
      settings: {
        concurrency,
        limits: noLimits,
        providers: { speech: { concurrency: 1, callLimitMs: 600_000 } } as never,
      },
    }),
  )
}
describe("a provider whose limit is as large as the slots", () => {
  it.effect("is used again at once, by claims with completions", () =>
    Effect.map(refill(false, 2), (waits) => assert.deepStrictEqual(waits, [0, 0, 0])),
  )
  it.effect("is used again at once, by claims apart", () =>
    Effect.map(refill(true, 2), (waits) => assert.deepStrictEqual(waits, [0, 0, 0])),
  )
})

describe("a severed creation", () => {
  it.effect("does not keep an idle worker from claiming", () => {
    const unlocked = Deferred.makeUnsafe<void>()
    const stores = storesWith(JobStore, (store) => {
      const lock = (items: ReadonlyArray<{ idempotencyKey?: unknown }>) =>
        Effect.gen(function* () {
          if (!JSON.stringify(items).includes("locked")) return
          if (yield* ShortLockWait) return yield* Effect.fail(contended)
          yield* Deferred.await(unlocked)
        })
      return {
        claimJobs: store.claimJobs,
        createJobs: (items) => Effect.andThen(lock(items as never), store.createJobs(items)),
        createAndClaimJobs: (items, request) =>
          Effect.andThen(lock(items as never), store.createAndClaimJobs(items, request)),
      }
    })
    const { began, speech } = held()
    return Effect.gen(function* () {
      yield* running
      yield* settle
      yield* Effect.forkChild(submitSpeech("locked"))
      yield* settle
      yield* submitSpeech("other")
      yield* settle
      let ms = 0
      while (began.length < 1 && ms < 60_000) {
        yield* passTime("100 millis")
        ms += 100
      }
      yield* Deferred.succeed(unlocked, undefined)
      yield* settle
      assert.strictEqual(ms, 0)
    }).pipe(within({ stores, sandbox: speech, settings: { concurrency: 10, limits: noLimits } }))
  })
})

describe("a slot of the other mode that frees during a joint claim", () => {
  it.effect("is filled at once", () => {
    const through = Deferred.makeUnsafe<void>()
    const { asked, stores } = watching(through)
    const sandbox = held()
    const live = held()
    const liveUser = principal("live")
    return Effect.gen(function* () {
      yield* openBoard({ input_characters: "0.01" })
      yield* running
      yield* settle
      yield* submitSpeech("s1")
      yield* settle
      yield* submitSpeech("s2")
      yield* settle
      yield* submitSpeech("l1", liveUser)
      yield* settle
      asked.length = 0
      yield* Deferred.succeed(live.began[0]!.end, undefined)
      yield* settle
      yield* Deferred.fail(
        sandbox.began[0]!.end,
        new ProviderFailure({ errorCode: "provider_rejected", retry: false, detail: "no" }),
      )
      yield* settle
      yield* Deferred.succeed(through, undefined)
      yield* settle
      let ms = 0
      while (sandbox.began.length < 2 && ms < 60_000) {
        yield* passTime("100 millis")
        ms += 100
      }
      assert.strictEqual(ms, 0)
    }).pipe(
      within({ stores, sandbox: sandbox.speech, live: live.speech, settings: { concurrency: 1, limits: noLimits } }),
    )
  })
})
