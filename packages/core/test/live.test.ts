import { assert, describe, it } from "@effect/vitest"
import { Engine, type ProviderSet } from "@kiln/core"
import { billingOf } from "@kiln/core/domain"
import { Switchboard } from "@kiln/core/ports"
import { Worker } from "@kiln/core/worker"
import { Effect, Fiber, Stream } from "effect"
import { TestClock } from "effect/testing"
import { grantOf, harness, kind, plainProviders, principal, submitSpeech } from "./support/harness.ts"

const live = principal("live")
const never: ProviderSet = { speech: { speak: () => Effect.die(new Error("a sandbox job reached a live provider, or the other way round")) } }

const open = Effect.gen(function* () {
  const board = yield* Switchboard
  yield* board.setPrice({ name: "svc-audio", currency: "usd", unitAmounts: { input_characters: "0.000015" } })
  yield* board.activatePrice("svc-audio", true)
  yield* board.setSwitch("ai", true)
  yield* board.setSwitch("audio", true)
  yield* board.publishWorker({ workerId: "w", liveKinds: ["speech_synthesis"], ttlMs: 600_000 })
})

describe("live jobs", () => {
  it.effect("need price, switches and a provider, named in the contract's order", () =>
    Effect.gen(function* () {
      const refused = yield* Effect.flip(submitSpeech("k", live))
      assert.deepStrictEqual(refused._tag === "LiveNotActive" && refused.missing, [
        "price:svc-audio", "switch:ai", "switch:audio", "provider:speech_synthesis",
      ])
      yield* open
      assert.strictEqual((yield* submitSpeech("k", live)).status, "queued")
    }).pipe(Effect.provide(harness({ live: plainProviders }))))

  it.effect("are charged once, exactly, at the price of their creation", () =>
    Effect.gen(function* () {
      yield* open
      const engine = yield* Engine
      const worker = yield* Worker
      const board = yield* Switchboard
      const job = yield* submitSpeech("k", live)
      assert.deepStrictEqual(billingOf(job, "usd"), { status: "pending", currency: "usd", amount: null, lineItems: [] })
      yield* board.setPrice({ name: "svc-audio", currency: "usd", unitAmounts: { input_characters: "1" } })
      yield* worker.tick
      assert.deepStrictEqual(billingOf(yield* engine.getJob(live, job.id), "usd"), {
        status: "charged", currency: "usd", amount: "0.000075",
        lineItems: [{ meter: "input_characters", quantity: 5, unitAmount: "0.000015", amount: "0.000075" }],
      })
    }).pipe(Effect.provide(harness({ live: plainProviders, sandbox: never }))))

  it.effect("wait while a switch is off, unharmed, and go on when it is on again", () =>
    Effect.gen(function* () {
      yield* open
      const engine = yield* Engine
      const worker = yield* Worker
      const board = yield* Switchboard
      const job = yield* submitSpeech("k", live)
      yield* board.setSwitch("audio", false)
      assert.strictEqual(yield* worker.tick, 0)
      assert.strictEqual((yield* engine.getJob(live, job.id)).status, "queued")
      yield* board.setSwitch("audio", true)
      yield* TestClock.adjust("1 seconds")
      assert.strictEqual(yield* worker.tick, 1)
      assert.strictEqual((yield* engine.getJob(live, job.id)).status, "done")
    }).pipe(Effect.provide(harness({ live: plainProviders, sandbox: never }))))

  it.effect("a switch thrown between two steps releases the job before the next provider is asked", () => {
    let spoken = 0
    const providers: ProviderSet = {
      ...plainProviders,
      transcription: { transcribe: () => Effect.as(Effect.sleep("5 seconds"), { text: "hello" }) },
      speech: {
        speak: () =>
          Effect.sync(() => {
            spoken += 1
            return { data: new Uint8Array([1]), mediaType: "audio/mpeg" }
          }),
      },
    }
    return Effect.gen(function* () {
      yield* open
      const engine = yield* Engine
      const worker = yield* Worker
      const board = yield* Switchboard
      yield* board.publishWorker({ workerId: "w", liveKinds: ["speech_synthesis", "voice_turn"], ttlMs: 600_000 })
      const upload = yield* engine.createUpload(live, { format: "wav", declaredSeconds: 3 })
      const data = new TextEncoder().encode("RIFF0000WAVEfmt ")
      yield* engine.receiveUpload({ uploadId: upload.id, contentType: "audio/wav", contentLength: undefined, content: Stream.succeed(data) })
      const { job } = yield* engine.createJob(grantOf(live), kind("voice_turn"), { uploadId: upload.id, maxOutputTokens: 5 }, "k")
      const attempt = yield* Effect.forkChild(worker.tick)
      yield* TestClock.adjust("1 seconds")
      yield* board.setSwitch("ai", false)
      yield* TestClock.adjust("10 seconds")
      yield* Fiber.join(attempt)
      const shut = yield* engine.getJob(live, job.id)
      assert.deepStrictEqual([shut.status, shut.held, shut.failures, spoken], ["processing", false, 0, 0])
      yield* board.setSwitch("ai", true)
      yield* TestClock.adjust("1 seconds")
      yield* worker.tick
      assert.strictEqual((yield* engine.getJob(live, job.id)).status, "done")
    }).pipe(Effect.provide(harness({ live: providers, sandbox: never })))
  })

  it.effect("a sandbox job never reaches a live provider and costs nothing", () =>
    Effect.gen(function* () {
      const engine = yield* Engine
      const worker = yield* Worker
      const job = yield* submitSpeech("k")
      yield* worker.tick
      const done = yield* engine.getJob(principal(), job.id)
      assert.strictEqual(done.status, "done")
      assert.deepStrictEqual(billingOf(done, "usd"), { status: "not_charged", currency: "usd", amount: "0", lineItems: [] })
    }).pipe(Effect.provide(harness({ live: never }))))
})
