import { assert, describe, it } from "@effect/vitest"
import { JobStore } from "@kiln/core/ports"
import { ProviderFailure } from "@kiln/core/providers"
import { Worker } from "@kiln/core/worker"
import { Deferred, Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { storesWith } from "./support/faults.ts"
import { mp3, speaks, within } from "./support/harness.ts"
import { readJob, running, submitSpeech } from "./support/jobs.ts"
import { comesTrue, passTime } from "./support/virtualTime.ts"

const settle = comesTrue(Effect.succeed(false), 0)
const noLimits = { perKind: {}, perProject: 0 } as const
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
const slowJoint = (through: Deferred.Deferred<void>, which = 1) => {
  let n = 0
  return storesWith(JobStore, (store) => ({
    completeAndClaimJobs: (items, request) =>
      Effect.tap(store.completeAndClaimJobs(items, request), () =>
        ++n === which ? Deferred.await(through) : Effect.void,
      ),
  }))
}

describe("stopping while a completion claims", () => {
  it.effect("releases the claimed job", () => {
    const through = Deferred.makeUnsafe<void>()
    const { began, speech } = held()
    return Effect.gen(function* () {
      const worker = yield* Worker
      const run = yield* Effect.forkChild(worker.run)
      yield* settle
      yield* submitSpeech("a")
      yield* settle
      const b = yield* submitSpeech("b")
      yield* settle
      yield* Deferred.succeed(began[0]!.end, undefined)
      yield* settle
      const stopping = yield* Effect.forkChild(Fiber.interrupt(run))
      yield* settle
      yield* Deferred.succeed(through, undefined)
      yield* passTime("1 minutes")
      yield* Fiber.join(stopping)
      const job = yield* readJob(b.id)
      assert.deepInclude(job, { held: false, attempts: 1, lostWorkers: 0, failures: 0 })
    }).pipe(
      within({
        stores: slowJoint(through),
        sandbox: speech,
        settings: { concurrency: 1, limits: noLimits, drainMs: 1_000 },
      }),
    )
  })
})

describe("health after hours of joint claims", () => {
  it.effect("nextClaimBy is not long ago while a slot is free", () => {
    const through = Deferred.makeUnsafe<void>()
    const { began, speech } = held()
    return Effect.gen(function* () {
      const worker = yield* Worker
      yield* running
      yield* settle
      for (let n = 0; n < 8; n++) {
        yield* submitSpeech(`k${n}`)
        yield* settle
      }
      for (let n = 0; n < 4; n++) {
        yield* passTime("1 minutes")
        yield* Deferred.succeed(began[n]!.end, undefined)
        yield* settle
      }
      // The fifth joint claim is slow; another job fails meanwhile.
      yield* Deferred.succeed(began[4]!.end, undefined)
      yield* settle
      yield* Deferred.fail(
        began[5]!.end,
        new ProviderFailure({ errorCode: "provider_rejected", retry: false, detail: "no" }),
      )
      yield* settle
      const now = yield* Effect.map(
        TestClock.testClockWith((clock) => Effect.succeed(Number(clock.monotonicTimeNanosUnsafe()) / 1e6)),
        (ms) => ms,
      )
      const silenceMs = now - ((yield* worker.nextClaimBy) ?? 0)
      yield* Deferred.succeed(through, undefined)
      yield* settle
      assert.isBelow(silenceMs, 10_000)
    }).pipe(within({ stores: slowJoint(through, 5), sandbox: speech, settings: { concurrency: 2, limits: noLimits } }))
  })
})
