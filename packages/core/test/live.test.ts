import { assert, describe, it } from "@effect/vitest"
import { Engine } from "@kiln/core/effect"
import { billingOf } from "@kiln/core/domain"
import { Switchboard } from "@kiln/core/ports"
import type { ProviderSet } from "@kiln/core/providers"
import { Worker } from "@kiln/core/worker"
import { Clock, Effect, Logger } from "effect"
import { storesWith } from "./support/faults.ts"
import { grantOf, kind, mp3, plainProviders, principal, within } from "./support/harness.ts"
import { openBoard, readJob, submitSpeech, submitTranscription, submitVoiceTurn } from "./support/jobs.ts"
import { ended, inTime, passTime } from "./support/virtualTime.ts"

const live = principal("live")
const never: ProviderSet = {
  speech: () => Effect.die(new Error("a sandbox job reached a live provider, or the other way round")),
}

const open = openBoard({ input_characters: "0.000015" })

describe("live jobs", () => {
  for (const requireLiveWorker of [true, false])
    it.effect(
      `need price and switches${requireLiveWorker ? ", and a worker if the setting requires it" : ", and no worker"}`,
      () =>
        Effect.gen(function* () {
          const refused = yield* Effect.flip(submitSpeech("k", live))
          assert.deepStrictEqual(refused._tag === "LiveNotActive" && refused.missing, [
            "price:svc-audio",
            "switch:ai",
            "switch:audio",
            ...(requireLiveWorker ? ["provider:speech_synthesis"] : []),
          ])
          yield* open
          assert.strictEqual((yield* submitSpeech("k", live)).status, "queued")
        }).pipe(within({ live: plainProviders, settings: { requireLiveWorker } })),
    )

  it.effect("a worker that served the kind within the queue limit is enough, an earlier one is not", () =>
    Effect.gen(function* () {
      yield* openBoard({ input_characters: "0.000015" }, [])
      const board = yield* Switchboard
      const submitted = Effect.suspend(() =>
        Effect.match(submitSpeech(crypto.randomUUID(), live), {
          onSuccess: ({ status }) => status,
          onFailure: (refused) => (refused._tag === "LiveNotActive" ? refused.missing.join() : refused._tag),
        }),
      )
      assert.strictEqual(yield* submitted, "provider:speech_synthesis")
      const worker = { workerId: "w", liveKinds: ["speech_synthesis"], providers: [] }
      yield* board.publishWorker({ ...worker, ttlMs: 1 })
      yield* board.publishWorker({ ...worker, ttlMs: 0 })
      assert.strictEqual(yield* submitted, "queued")
      yield* passTime("2 hours")
      assert.strictEqual(yield* submitted, "queued")
      yield* passTime("1 millis")
      assert.strictEqual(yield* submitted, "provider:speech_synthesis")
    }).pipe(within({ live: plainProviders, settings: { requireLiveWorker: true, queueLimitMs: 2 * 3_600_000 } })),
  )

  it.effect("are charged once, exactly, at the price of their creation", () =>
    Effect.gen(function* () {
      yield* open
      const worker = yield* Worker
      const board = yield* Switchboard
      const job = yield* submitSpeech("k", live)
      assert.deepStrictEqual(billingOf(job, "usd"), { status: "pending", currency: "usd", amount: null, lineItems: [] })
      yield* board.setPrice({ name: "svc-audio", currency: "usd", unitAmounts: { input_characters: "1" } })
      yield* worker.tick
      assert.deepStrictEqual(billingOf(yield* readJob(job.id, live), "usd"), {
        status: "charged",
        currency: "usd",
        amount: "0.000075",
        lineItems: [{ meter: "input_characters", quantity: 5, unitAmount: "0.000015", amount: "0.000075" }],
      })
    }).pipe(within({ live: plainProviders, sandbox: never })),
  )

  it.effect(
    "accepted under a price without their meter, as by an earlier version, are marked in the bill and in the log",
    () => {
      const lines: Array<string> = []
      const capture = Logger.layer([Logger.map(Logger.formatLogFmt, (line) => void lines.push(line))])
      return Effect.gen(function* () {
        yield* openBoard({ images: "1" })
        const refused = yield* Effect.flip(submitSpeech("k", live))
        assert.deepStrictEqual(refused._tag === "LiveNotActive" && refused.missing, ["price:svc-audio"])
        const speech = kind("speech_synthesis")
        const before = { ...speech, gate: { ...speech.gate, meters: [] } }
        const engine = yield* Engine
        const { job } = yield* engine.createJob(grantOf(live), before, { input: "hello" }, "k")
        yield* (yield* Worker).tick
        assert.deepStrictEqual(billingOf(yield* readJob(job.id, live), "usd"), {
          status: "charged",
          currency: "usd",
          amount: "0",
          lineItems: [{ meter: "input_characters", quantity: 5, unitAmount: "0", amount: "0" }],
        })
        assert.match(
          lines.join("\n"),
          /usage of input_characters was not charged: the job was accepted with version 1 of the price svc-audio/,
        )
      }).pipe(within({ live: plainProviders, sandbox: never }), Effect.provide(capture))
    },
  )

  it.effect("wait while a switch is off and continue when it is on again", () =>
    Effect.gen(function* () {
      yield* open
      const worker = yield* Worker
      const board = yield* Switchboard
      const job = yield* submitSpeech("k", live)
      yield* board.setSwitch("audio", false)
      assert.strictEqual(yield* worker.tick, 0)
      assert.strictEqual((yield* readJob(job.id, live)).status, "queued")
      yield* board.setSwitch("audio", true)
      yield* passTime("1 seconds")
      assert.strictEqual(yield* worker.tick, 1)
      assert.strictEqual((yield* readJob(job.id, live)).status, "done")
    }).pipe(within({ live: plainProviders, sandbox: never })),
  )

  it.effect("claims do not wait for the switchboard while it is read again", () => {
    let reads = 0
    const stores = storesWith(Switchboard, (board) => ({
      readBoard: Effect.suspend(() => {
        reads += 1
        return reads === 1 ? board.readBoard : Effect.delay(board.readBoard, 100)
      }),
    }))
    return Effect.gen(function* () {
      yield* open
      const worker = yield* Worker
      yield* submitSpeech("a", live)
      yield* submitSpeech("b", live)
      assert.strictEqual(yield* worker.tick, 2)
      const before = reads
      // Half its age has passed: it is read again, and this claim goes by the one before.
      yield* passTime(300)
      yield* submitSpeech("c", live)
      const startedAt = yield* Clock.currentTimeMillis
      assert.strictEqual(yield* worker.tick, 1)
      assert.strictEqual(yield* Clock.currentTimeMillis, startedAt)
      yield* passTime(250)
      assert.strictEqual(reads, before + 1)
      // By the first reading alone it would be too old by now.
      yield* submitSpeech("d", live)
      assert.strictEqual(yield* worker.tick, 1)
      assert.strictEqual(yield* Clock.currentTimeMillis, startedAt + 250)
    }).pipe(within({ live: plainProviders, sandbox: never, stores }))
  })

  it.effect("a switch turned off between two steps releases the job before the next provider is called", () => {
    let spoken = 0
    const providers: ProviderSet = {
      ...plainProviders,
      transcription: () => Effect.as(Effect.sleep("5 seconds"), { text: "hello" }),
      speech: () =>
        Effect.sync(() => {
          spoken += 1
          return mp3
        }),
    }
    return Effect.gen(function* () {
      yield* openBoard({ input_audio_seconds: "0.1", output_tokens: "0.1" })
      const worker = yield* Worker
      const board = yield* Switchboard
      const job = yield* submitVoiceTurn("k", live)
      const attempt = yield* Effect.forkChild(worker.tick)
      yield* passTime("1 seconds")
      yield* board.setSwitch("ai", false)
      yield* ended(attempt, "10 seconds")
      const shut = yield* readJob(job.id, live)
      assert.deepStrictEqual([shut.status, shut.held, shut.failures, spoken], ["processing", false, 0, 0])
      assert.strictEqual(shut.claimableAt, shut.createdAt, "given back, not put off")
      yield* board.setSwitch("ai", true)
      yield* passTime("1 seconds")
      yield* worker.tick
      assert.strictEqual((yield* readJob(job.id, live)).status, "done")
    }).pipe(within({ live: providers, sandbox: never }))
  })

  for (const [kind, submit] of [
    ["transcription", submitTranscription],
    ["voice turn", submitVoiceTurn],
  ] as const)
    it.effect(`a switch turned off while its file is measured releases a ${kind} before a provider is called`, () => {
      let transcribed = 0
      const providers: ProviderSet = {
        ...plainProviders,
        transcription: () =>
          Effect.sync(() => {
            transcribed += 1
            return { text: "hello" }
          }),
      }
      return Effect.gen(function* () {
        yield* openBoard({ input_audio_seconds: "0.1", output_tokens: "0.1" })
        const worker = yield* Worker
        const board = yield* Switchboard
        const job = yield* submit("k", live)
        const attempt = yield* Effect.forkChild(worker.tick)
        yield* passTime("1 seconds")
        assert.isTrue((yield* readJob(job.id, live)).held)
        yield* board.setSwitch("ai", false)
        yield* ended(attempt, "10 seconds")
        const shut = yield* readJob(job.id, live)
        assert.deepStrictEqual([shut.status, shut.held, shut.failures, transcribed], ["processing", false, 0, 0])
        assert.strictEqual(shut.claimableAt, shut.createdAt, "given back, not put off")
        yield* board.setSwitch("ai", true)
        yield* passTime("1 seconds")
        yield* inTime(worker.tick, "10 seconds")
        assert.deepStrictEqual([(yield* readJob(job.id, live)).status, transcribed], ["done", 1])
      }).pipe(within({ live: providers, sandbox: never, whileProbing: Effect.sleep("5 seconds") }))
    })

  it.effect("a sandbox job never reaches a live provider and costs nothing", () =>
    Effect.gen(function* () {
      const worker = yield* Worker
      const job = yield* submitSpeech("k")
      yield* worker.tick
      const done = yield* readJob(job.id)
      assert.strictEqual(done.status, "done")
      assert.deepStrictEqual(billingOf(done, "usd"), {
        status: "not_charged",
        currency: "usd",
        amount: "0",
        lineItems: [],
      })
    }).pipe(within({ live: never })),
  )
})
