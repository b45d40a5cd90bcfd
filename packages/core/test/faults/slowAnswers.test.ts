import { assert, describe, it } from "@effect/vitest"
import { isFinished, type StoreUnavailable } from "@kiln/core/domain"
import { JobEvents } from "@kiln/core/effect"
import { type FencedOutcome, JobStore, Switchboard } from "@kiln/core/ports"
import { ProviderFailure } from "@kiln/core/providers"
import { Worker } from "@kiln/core/worker"
import { makeFakeProviders } from "@kiln/testing"
import { Effect } from "effect"
import { untilStep } from "../../src/domain/Child.ts"
import { AttemptMeter } from "../../src/worker/metrics/jobMetrics.ts"
import { awaitSignal, type WaitServices } from "../../src/worker/attempt/waiting.ts"
import { storeDown, storesWith } from "../support/faults.ts"
import { mp3, plainProviders, principal, speaks, within } from "../support/harness.ts"
import {
  finished,
  openBoard,
  readJob,
  running,
  submitSpeech,
  submitTranscription,
  submitVoiceTurn,
} from "../support/jobs.ts"
import { ended, passTime, passUntil } from "../support/virtualTime.ts"

const slowly = <A, E>(call: Effect.Effect<A, E>, ms: number) => Effect.tap(call, () => Effect.sleep(ms))
const rejected = Effect.fail(new ProviderFailure({ errorCode: "provider_rejected", retry: false, detail: "no" }))
const busy = Effect.fail(new ProviderFailure({ errorCode: "provider_unavailable", retry: true, detail: "busy" }))
const speaksFor = (ms: number) => speaks(() => Effect.as(Effect.sleep(ms), mp3))

describe("a slow response", () => {
  it.effect("to one heartbeat does not delay later ones: newer claims keep their leases", () => {
    let beats = 0
    const stores = storesWith(JobStore, (store) => ({
      // The second heartbeat is written, but its response is delayed by two leases.
      extendLeases: (leases) => slowly(store.extendLeases(leases), (beats += 1) === 2 ? 60_000 : 0),
    }))
    return Effect.gen(function* () {
      yield* running
      const early = yield* submitSpeech("early")
      yield* passTime("21 seconds")
      assert.strictEqual(beats, 2)
      const late = yield* submitSpeech("late")
      for (const { id } of [early, late]) {
        const job = yield* finished(id, "5 minutes")
        assert.deepStrictEqual([job.status, job.attempts, job.lostWorkers], ["done", 1, 0])
      }
    }).pipe(within({ stores, sandbox: speaksFor(100_000) }))
  })

  it.effect("that was overtaken by a later one does not shorten a lease", () => {
    let beats = 0
    const stores = storesWith(JobStore, (store) => ({
      extendLeases: (leases) => {
        beats += 1
        // The fifth beat, which could make up for a lease that was shortened, does not get through.
        if (beats === 5) return Effect.fail(storeDown)
        // The answer to the second comes after those to the third and fourth.
        return slowly(store.extendLeases(leases), beats === 2 ? 25_000 : 0)
      },
    }))
    return Effect.gen(function* () {
      yield* running
      const { id } = yield* submitSpeech("k")
      const job = yield* finished(id, "5 minutes")
      assert.isAbove(beats, 5)
      assert.deepStrictEqual([job.status, job.attempts, job.lostWorkers], ["done", 1, 0])
    }).pipe(within({ stores, sandbox: speaksFor(100_000) }))
  })

  it.effect("that arrives in order replaces a lease granted before the store's clock was set forward", () => {
    let beats = 0
    let interrupted = false
    const stores = storesWith(JobStore, (store) => ({
      extendLeases: (leases) => {
        beats += 1
        if (beats > 3) return Effect.fail(storeDown)
        return Effect.map(store.extendLeases(leases), (outcomes) =>
          outcomes.map((outcome) =>
            beats === 3 && outcome._tag === "Extended" ? { ...outcome, leaseRemainingMs: 5_000 } : outcome,
          ),
        )
      },
    }))
    const sandbox = speaks(() =>
      Effect.onInterrupt(Effect.never, () =>
        Effect.sync(() => {
          interrupted = true
        }),
      ),
    )
    return Effect.gen(function* () {
      yield* running
      yield* submitSpeech("k")
      yield* passTime("34 seconds")
      assert.isFalse(interrupted)
      // By the answer to the second beat it would go on until 49.9 s.
      yield* passTime("7 seconds")
      assert.isTrue(interrupted)
    }).pipe(within({ stores, sandbox }))
  })

  describe("to the end of an attempt", () => {
    const ends = (["completeJobs", "failJobs", "deferJobs"] as const).map((verb) => ({ verb }))
    const speech = { completeJobs: Effect.succeed(mp3), failJobs: rejected, deferJobs: busy }

    it.effect.each(ends)("is the one that counts, whatever a check finds meanwhile: $verb", ({ verb }) => {
      const stores = storesWith(JobStore, (store) => {
        const write = store[verb] as (
          items: ReadonlyArray<never>,
        ) => Effect.Effect<ReadonlyArray<FencedOutcome>, StoreUnavailable>
        // Longer than the interval of a check, and of a heartbeat.
        return { [verb]: (items: ReadonlyArray<never>) => slowly(write(items), 12_000) }
      })
      return Effect.gen(function* () {
        const events: Array<string> = []
        const { listen } = yield* JobEvents
        listen(({ type }) => void events.push(type))
        yield* running
        const { id } = yield* submitSpeech("k")
        yield* passTime("13 seconds")
        assert.include(events, { completeJobs: "completed", failJobs: "failed", deferJobs: "attempt_failed" }[verb])
        assert.strictEqual((yield* readJob(id)).lostWorkers, 0)
      }).pipe(within({ stores, sandbox: speaks(() => speech[verb]) }))
    })
  })

  describe("that comes after the lease has ended", () => {
    /** Everything that is told about the ends of attempts. */
    const heard = Effect.gen(function* () {
      const events: Array<string> = []
      const { listen } = yield* JobEvents
      listen(({ type }) => void (type === "queued" || type === "active" || events.push(type)))
      return events
    })
    const ends = [
      { verb: "completeJobs", event: "completed", speech: Effect.succeed(mp3) },
      { verb: "failJobs", event: "failed", speech: rejected },
    ] as const
    const answers = [
      { what: "an answer that is late", late: <A, E>(write: Effect.Effect<A, E>) => slowly(write, 30_500) },
      { what: "a commit that is late", late: <A, E>(write: Effect.Effect<A, E>) => Effect.delay(write, 30_500) },
      { what: "an answer that is too late", late: <A, E>(write: Effect.Effect<A, E>) => slowly(write, 37_000) },
    ]
    const cases = ends.flatMap((end) => answers.map((answer) => ({ ...end, ...answer })))

    it.effect.each(cases)("still counts, or the row instead: $verb, $what", ({ event, late, speech, verb }) => {
      const outcomes: Array<string> = []
      const meter = {
        began: () => {},
        beganFirst: () => {},
        ended: (_: unknown, how: string) => void outcomes.push(how),
      }
      const stores = storesWith(JobStore, (store) => {
        const write = store[verb] as (
          items: ReadonlyArray<never>,
        ) => Effect.Effect<ReadonlyArray<FencedOutcome>, StoreUnavailable>
        let claims = 0
        return {
          // No other claim takes the job over.
          claimJobs: (request) =>
            Effect.suspend(() => ((claims += 1) === 1 ? store.claimJobs(request) : Effect.fail(storeDown))),
          extendLeases: () => Effect.fail(storeDown),
          [verb]: (items: ReadonlyArray<never>) => late(write(items)),
        }
      })
      return Effect.gen(function* () {
        const events = yield* heard
        yield* submitSpeech("k")
        yield* running
        yield* passTime("40 seconds")
        assert.deepStrictEqual(events, [event])
        assert.deepStrictEqual(outcomes, [verb === "completeJobs" ? "done" : "failed"])
        assert.strictEqual(yield* (yield* Worker).running, 0)
      }).pipe(
        within({ stores, sandbox: speaks(() => speech), settings: { leaseDurationMs: 30_000 } }),
        Effect.provideService(AttemptMeter, meter),
      )
    })

    const endings = [
      { how: "canceled", outcome: "ended" },
      { how: "finished by another worker", outcome: "lease_lost" },
    ] as const
    it.effect.each(endings)("tells a lost lease from the end of the job: $how", ({ how, outcome }) => {
      const outcomes: Array<string> = []
      const meter = {
        began: () => {},
        beganFirst: () => {},
        ended: (_: unknown, told: string) => void outcomes.push(told),
      }
      return Effect.gen(function* () {
        const worker = yield* Worker
        const { id } = yield* submitSpeech("k")
        const attempt = yield* Effect.forkChild(worker.tick)
        const isHeld = Effect.map(readJob(id), ({ held }) => held)
        yield* passUntil("the job is claimed", isHeld, "1 seconds")
        const store = yield* JobStore
        const { kind, kindVersion, token } = yield* readJob(id)
        // As another process does it.
        if (how === "canceled") yield* store.cancelJobs([id])
        else {
          yield* store.releaseJobs([{ jobId: id, token }])
          const { claims } = yield* store.claimJobs({
            runnable: [{ kind, kindVersion, mode: "sandbox" }],
            limits: { perKind: {}, perProject: 0 },
            limit: 1,
            leaseDurationMs: 600_000,
            maxLostWorkers: 3,
          })
          const errorCode = "internal_error"
          yield* store.failJobs(claims.map((claim) => ({ jobId: id, token: claim.token, errorCode })))
        }
        yield* ended(attempt, "20 seconds")
        assert.isTrue(isFinished(yield* readJob(id)))
        assert.deepStrictEqual(outcomes, [outcome])
      }).pipe(within({ sandbox: speaksFor(100_000) }), Effect.provideService(AttemptMeter, meter))
    })
  })

  it.effect("about switches is ignored, because they may have changed since", () => {
    let slow = false
    const stores = storesWith(Switchboard, (board) => ({
      readBoard: Effect.suspend(() => slowly(board.readBoard, slow ? 2_000 : 0)),
    }))
    let calls = 0
    const live = speaks(() =>
      Effect.sync(() => {
        calls += 1
        return mp3
      }),
    )
    return Effect.gen(function* () {
      const board = yield* Switchboard
      yield* openBoard({ input_characters: "0.001" })
      slow = true
      const { id } = yield* submitSpeech("k", principal("live"))
      yield* running
      yield* passTime("1 seconds")
      // Seen as on by the question that is on its way.
      yield* board.setSwitch("ai", false)
      yield* passTime("10 seconds")
      assert.deepStrictEqual([(yield* readJob(id, principal("live"))).status, calls], ["queued", 0])
      yield* board.setSwitch("ai", true)
      slow = false
      assert.strictEqual((yield* finished(id, "1 minutes", principal("live"))).status, "done")
    }).pipe(within({ stores, sandbox: plainProviders, live }))
  })

  it.effect("to a read of signals does not end a wait: one that came in time meanwhile counts", () =>
    Effect.gen(function* () {
      let now = 0
      const kept: Array<unknown> = []
      const listSignals = () =>
        Effect.sync(() => {
          now = 200
          return []
        })
      const services: WaitServices = {
        job: { id: "job", checkpoints: { [untilStep("go")]: 100 } } as never,
        store: { listSignals } as never,
        now: () => now,
        keep: (...step) => Effect.sync(() => void kept.push(step)),
        inherited: undefined,
      }
      const parked = yield* Effect.flip(awaitSignal(services, "go", { timeout: 100 }))
      assert.deepInclude(parked, { _tag: "AttemptParked", park: { reason: "signal", subject: "go", until: 100 } })
      assert.deepStrictEqual(kept, [])
      // The next attempt asks after the end.
      assert.deepStrictEqual(yield* awaitSignal(services, "go", { timeout: 100 }), { timedOut: true })
      assert.deepStrictEqual(kept, [[untilStep("go"), "over"]])
    }),
  )
})

describe("a slow answer to a claim", () => {
  it.effect("a slot that became free meanwhile is filled at once, not at the next poll", () => {
    let answerMs = 0
    const stores = storesWith(JobStore, (store) => ({
      claimJobs: (request) => {
        const ms = answerMs
        answerMs = 0
        return slowly(store.claimJobs(request), ms)
      },
    }))
    const durations = ["5 seconds", "8 seconds"] as const
    let spoken = 0
    const sandbox = speaks(() => Effect.as(Effect.sleep(durations[spoken++] ?? "1 hours"), mp3))
    const settings = { concurrency: 2, limits: { perKind: {}, perProject: 0 } as const, pollIntervalMs: 3_600_000 }
    return Effect.gen(function* () {
      const jobs = yield* Effect.forEach(["a", "b", "c", "d"], (key) => submitSpeech(key))
      yield* running
      yield* passTime("1 seconds")
      answerMs = 8_000
      // From second 5 to 13, the third job is being claimed for the slot of the first. The second leaves its own at second 8.
      yield* passTime("13 seconds")
      const held = yield* Effect.forEach(jobs, ({ id }) => Effect.map(readJob(id), (job) => job.held))
      assert.deepStrictEqual(held, [false, false, true, true])
    }).pipe(within({ stores, sandbox, settings }))
  })
})

describe("a write that is retried", () => {
  it.effect("ends with its lease", () => {
    let claims = 0
    let writes = 0
    const stores = storesWith(JobStore, (store) => ({
      // The next claim would start it again.
      claimJobs: (request) =>
        Effect.suspend(() => {
          claims += 1
          return claims === 1 ? store.claimJobs(request) : Effect.fail(storeDown)
        }),
      completeJobs: () =>
        Effect.suspend(() => {
          writes += 1
          return Effect.fail(storeDown)
        }),
    }))
    return Effect.gen(function* () {
      const worker = yield* Worker
      yield* submitSpeech("k")
      yield* running
      yield* passTime("29 seconds")
      assert.isAbove(writes, 3)
      // Extended twice, and then no more: its end is written until the worker knows that it cannot be.
      yield* passTime("10 minutes")
      assert.strictEqual(yield* worker.running, 0)
      const before = writes
      yield* passTime("10 minutes")
      assert.strictEqual(writes, before)
    }).pipe(within({ stores, settings: { leaseDurationMs: 30_000, runLimitMs: 60_000 } }))
  })
})

describe("a lease that has ended when the claim arrives", () => {
  it.effect("calls no provider, for any kind", () => {
    const fake = makeFakeProviders()
    const stores = storesWith(JobStore, (store) => ({
      claimJobs: (request) =>
        Effect.map(store.claimJobs(request), (result) => ({
          ...result,
          claims: result.claims.map((claim) => ({ ...claim, leaseRemainingMs: 0 })),
        })),
    }))
    return Effect.gen(function* () {
      yield* running
      const jobs = [yield* submitSpeech("a"), yield* submitTranscription("b"), yield* submitVoiceTurn("c")]
      yield* passTime("20 seconds")
      for (const { id } of jobs) assert.isAbove((yield* readJob(id)).attempts, 0)
      assert.deepStrictEqual(fake.calls(), [])
    }).pipe(within({ stores, sandbox: fake.providers }))
  })
})
