// What the meter of a process, and so its metrics, are told of attempts that have ended.
import { assert, describe, it } from "@effect/vitest"
import type { Charge } from "@kiln/core/domain"
import { JobStore } from "@kiln/core/ports"
import { providerBroken, ProviderFailure } from "@kiln/core/providers"
import { AttemptMeter, type AttemptOutcome } from "@kiln/core/worker"
import { Effect, Fiber } from "effect"
import { cancelJob } from "../src/engine/cancelJob.ts"
import { insteadOfFirst, storesWith } from "./support/faults.ts"
import { type HarnessOptions, mp3, principal, speaks, within } from "./support/harness.ts"
import { readJob, running, submitSpeech } from "./support/jobs.ts"
import { live, open } from "./support/liveSpeech.ts"
import { ended as fiberEnded, passTime } from "./support/virtualTime.ts"

interface Ended {
  readonly outcome: AttemptOutcome
  readonly seconds: number
  readonly charge: Charge | null
}

/** Runs a job until the first attempt has ended, and returns what the meter was told of each. */
const ran = (
  options: HarnessOptions,
  during: (jobId: string) => Effect.Effect<unknown, unknown, Effect.Services<ReturnType<typeof cancelJob>>> = () =>
    Effect.void,
  who = principal(),
) => {
  const all: Array<Ended> = []
  const meter = {
    began: () => undefined,
    beganFirst: () => undefined,
    ended: (_: unknown, outcome: AttemptOutcome, durationMs: number, charge: Charge | null) =>
      void all.push({ outcome, seconds: Math.round(durationMs / 1_000), charge }),
  }
  return Effect.gen(function* () {
    yield* passTime("5 seconds")
    if (who.mode === "live") yield* open
    const { id } = yield* submitSpeech("a", who)
    const worker = yield* running
    yield* passTime("1 second")
    yield* during(id)
    yield* passTime("2 minutes")
    yield* fiberEnded(Effect.runFork(Fiber.interrupt(worker)), "10 minutes")
    return { all, job: yield* readJob(id, who) }
  }).pipe(within(options), Effect.provideService(AttemptMeter, meter))
}

const takes = Effect.as(Effect.sleep("10 seconds"), mp3)

describe("an attempt that has ended", () => {
  it.effect("was done with the charge of its job, after the time that it took", () =>
    Effect.gen(function* () {
      const { all, job } = yield* ran({ live: speaks(() => takes) }, undefined, live)
      assert.deepStrictEqual(all, [{ outcome: "done", seconds: 10, charge: job.charge }])
      assert.strictEqual(job.charge?.currency, "usd")
    }),
  )

  it.effect("was done without a charge if its job is a sandbox job", () =>
    Effect.gen(function* () {
      const { all } = yield* ran({ sandbox: speaks(() => takes) })
      assert.deepStrictEqual(all, [{ outcome: "done", seconds: 10, charge: null }])
    }),
  )

  it.effect("has failed, whether or not another one follows", () =>
    Effect.gen(function* () {
      const failing = (retry: boolean) => new ProviderFailure({ errorCode: "provider_rejected", retry, detail: "no" })
      const final = yield* ran({ sandbox: speaks(() => Effect.fail(failing(false))) })
      assert.deepStrictEqual(final.all, [{ outcome: "failed", seconds: 0, charge: null }])
      const once = insteadOfFirst(Effect.fail(failing(true)))
      const retried = yield* ran({ sandbox: speaks(() => once(Effect.succeed(mp3))) })
      assert.deepStrictEqual(
        retried.all.map(({ outcome }) => outcome),
        ["failed", "done"],
      )
    }),
  )

  it.effect("was deferred if its provider is broken", () =>
    Effect.gen(function* () {
      const broken = providerBroken("quota", "402")
      const { all } = yield* ran({ live: speaks(() => Effect.fail(broken)) }, undefined, live)
      assert.deepStrictEqual(new Set(all.map(({ outcome }) => outcome)), new Set(["deferred"]))
    }),
  )

  it.effect("has ended with its job if that was canceled", () =>
    Effect.gen(function* () {
      const { all } = yield* ran({ sandbox: speaks(() => Effect.as(Effect.sleep("1 minute"), mp3)) }, cancelJob)
      assert.deepStrictEqual(
        all.map(({ outcome, charge }) => [outcome, charge]),
        [["ended", null]],
      )
    }),
  )

  it.effect("was released if its worker stops", () =>
    Effect.gen(function* () {
      const { all } = yield* ran({ sandbox: speaks(() => Effect.as(Effect.sleep("1 hour"), mp3)) })
      assert.deepStrictEqual(
        all.map(({ outcome }) => outcome),
        ["released"],
      )
    }),
  )

  it.effect("has lost its lease if the store refuses its end, and charges nothing", () =>
    Effect.gen(function* () {
      let calls = 0
      const stores = storesWith(JobStore, ({ completeJobs }) => ({
        completeJobs: (items) => (calls++ === 0 ? Effect.succeed(["LeaseLost"]) : completeJobs(items)),
      }))
      const { all, job } = yield* ran({ live: speaks(() => Effect.succeed(mp3)), stores }, undefined, live)
      assert.deepStrictEqual(
        all.map(({ outcome, charge }) => [outcome, charge]),
        [
          ["lease_lost", null],
          ["done", job.charge],
        ],
      )
    }),
  )
})
