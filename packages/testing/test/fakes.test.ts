import { assert, describe, it } from "@effect/vitest"
import { BlobCorrupt } from "@kiln/core/domain"
import { MediaProbe } from "@kiln/core/ports"
import type { ProviderCall } from "@kiln/core/providers"
import { Effect, Fiber, Stream } from "effect"
import { TestClock } from "effect/testing"
import { inflateSync } from "node:zlib"
import {
  answer,
  answerLate,
  defaultAnswers,
  failBroken,
  failWith,
  fakeMp3,
  fakePng,
  hang,
  huge,
  makeFakeMediaProbe,
  makeFakeProviders,
  malformed,
  trickle,
} from "../src/index.ts"

const call: ProviderCall = { jobId: "job_00000000000000000000000000", attempt: 1, failures: 0, deferrals: 0 }
const audio = (content: Stream.Stream<Uint8Array, BlobCorrupt> = Stream.empty) => ({
  format: "wav" as const,
  bytes: 0,
  seconds: 1,
  content,
})
const request = { text: "Hello", instructions: undefined, maxOutputTokens: 5 }

describe("FakeProviders", () => {
  it.effect("answer by default, and remember each call", () =>
    Effect.gen(function* () {
      const fake = makeFakeProviders()
      const { image, reply, speech, transcription } = fake.providers
      assert.deepStrictEqual(yield* transcription({ audio: audio() }, call), defaultAnswers.transcription)
      assert.deepStrictEqual(yield* reply(request, call), defaultAnswers.reply)
      assert.deepStrictEqual(yield* speech({ text: "Hi", voice: "nova" }, call), defaultAnswers.speech)
      assert.deepStrictEqual(yield* image({ prompt: "a fox" }, { ...call, attempt: 2 }), defaultAnswers.image)
      assert.deepStrictEqual(
        fake.calls().map((one) => one.provider),
        ["transcription", "reply", "speech", "image"],
      )
      assert.deepStrictEqual(fake.callsOf("image"), [
        {
          provider: "image",
          request: { prompt: "a fox" },
          call: { ...call, attempt: 2 },
          outcome: "answered",
          pieces: 0,
        },
      ])
    }),
  )

  it.effect("make a whole voice turn, separately from the set, after reading the audio", () =>
    Effect.gen(function* () {
      const fake = makeFakeProviders()
      assert.notProperty(fake.providers, "voiceTurn")
      const ask = (content?: Stream.Stream<Uint8Array, BlobCorrupt>) =>
        fake.voiceTurn({ audio: audio(content), instructions: undefined, maxOutputTokens: 5, voice: "nova" }, call)
      assert.deepStrictEqual(yield* ask(), defaultAnswers.voiceTurn)
      fake.script("voiceTurn", answer({ ...defaultAnswers.voiceTurn, text: "scripted" }))
      assert.strictEqual((yield* ask()).text, "scripted")
      const fault = new BlobCorrupt({ key: "uploads/1/1" })
      assert.strictEqual(yield* Effect.flip(ask(Stream.fail(fault))), fault)
      assert.deepStrictEqual(
        fake.callsOf("voiceTurn").map((one) => [one.request.voice, one.outcome]),
        [
          ["nova", "answered"],
          ["nova", "answered"],
          ["nova", "failed"],
        ],
      )
    }),
  )

  it.effect("break, as configured or by quota", () =>
    Effect.gen(function* () {
      const fake = makeFakeProviders()
      fake.script("reply", failBroken(), failBroken({ reason: "quota", retryAfterMs: 9, detail: "spent" }))
      const ask = Effect.flip(fake.providers.reply(request, call))
      const first = yield* ask
      assert.deepStrictEqual(
        [first._tag, first._tag === "ProviderBroken" && first.reason],
        ["ProviderBroken", "configuration"],
      )
      assert.deepInclude(yield* ask, { _tag: "ProviderBroken", reason: "quota", retryAfterMs: 9, detail: "spent" })
      assert.deepStrictEqual(
        fake.callsOf("reply").map((one) => one.outcome),
        ["failed", "failed"],
      )
    }),
  )

  it.effect("answer with any value, of any size", () =>
    Effect.gen(function* () {
      const fake = makeFakeProviders()
      const { image, reply, speech, transcription } = fake.providers
      fake.script("reply", malformed(undefined), malformed("text"), huge(10))
      const replies = [1, 2, 3].map(() => reply(request, call))
      assert.deepStrictEqual<ReadonlyArray<unknown>>(yield* Effect.all(replies), [
        undefined,
        "text",
        { ...defaultAnswers.reply, text: "x".repeat(10) },
      ])
      fake.script("transcription", huge(7))
      assert.deepStrictEqual(yield* transcription({ audio: audio() }, call), { text: "x".repeat(7) })
      fake.script("speech", huge(100_001))
      const { data } = yield* speech({ text: "Hi", voice: "nova" }, call)
      assert.deepStrictEqual([data.length, data.subarray(0, 24)], [100_008, data.subarray(99_984)])
      fake.script("image", huge(5_000))
      assert.strictEqual((yield* image({ prompt: "a fox" }, call)).data.length, fakePng().length + 5_012)
      fake.script("voiceTurn", huge(240))
      const turn = { audio: audio(), instructions: undefined, maxOutputTokens: 5, voice: "nova" }
      assert.strictEqual((yield* fake.voiceTurn(turn, call)).audio.data.length, 240)
    }),
  )

  it.effect("follow their script once, in order, then behave as usual", () =>
    Effect.gen(function* () {
      const fake = makeFakeProviders()
      const other = { text: "other", outputTokens: 1, truncated: true }
      fake.script("reply", failWith(), answer(other))
      fake.script("reply", failWith({ errorCode: "content_rejected", retry: false, retryAfterMs: 7 }))
      fake.usually("reply", answer({ ...other, text: "usual" }))
      const ask = fake.providers.reply(request, call)
      assert.deepInclude(yield* Effect.flip(ask), { errorCode: "provider_unavailable", retry: true })
      assert.deepStrictEqual(yield* ask, other)
      assert.deepInclude(yield* Effect.flip(ask), { errorCode: "content_rejected", retry: false, retryAfterMs: 7 })
      for (let i = 0; i < 2; i++) assert.strictEqual((yield* ask).text, "usual")
      assert.deepStrictEqual(
        fake.callsOf("reply").map((one) => one.outcome),
        ["failed", "answered", "failed", "answered", "answered"],
      )
      yield* fake.providers.image({ prompt: "untouched" }, call)
    }),
  )

  it.effect("hang until they are interrupted, and report when they were called", () =>
    Effect.gen(function* () {
      const fake = makeFakeProviders()
      fake.usually("speech", hang)
      const speak = fake.providers.speech({ text: "Hi", voice: "nova" }, call)
      const waiting = yield* Effect.forkChild(fake.untilCalled("speech", 2), { startImmediately: true })
      const first = yield* Effect.forkChild(speak)
      yield* fake.untilCalled("speech")
      assert.isUndefined(waiting.pollUnsafe())
      const second = yield* Effect.forkChild(speak)
      yield* Fiber.join(waiting)
      yield* fake.untilCalled("speech", 2)
      assert.deepStrictEqual(
        fake.callsOf("speech").map((one) => one.outcome),
        ["running", "running"],
      )
      yield* Fiber.interrupt(first)
      assert.deepStrictEqual(
        fake.callsOf("speech").map((one) => one.outcome),
        ["interrupted", "running"],
      )
      yield* Fiber.interrupt(second)
    }),
  )

  it.effect("answer late in virtual time", () =>
    Effect.gen(function* () {
      const fake = makeFakeProviders()
      fake.script("image", answerLate(60_000, defaultAnswers.image))
      const fiber = yield* Effect.forkChild(fake.providers.image({ prompt: "a fox" }, call), {
        startImmediately: true,
      })
      yield* TestClock.adjust(59_999)
      assert.isUndefined(fiber.pollUnsafe())
      yield* TestClock.adjust(1)
      assert.deepStrictEqual(yield* Fiber.join(fiber), defaultAnswers.image)
    }),
  )

  it.effect("trickle: chunk by chunk in virtual time, and record their progress", () =>
    Effect.gen(function* () {
      const fake = makeFakeProviders()
      fake.usually("image", trickle(3, 1_000, defaultAnswers.image))
      const generate = Effect.forkChild(fake.providers.image({ prompt: "a fox" }, call), {
        startImmediately: true,
      })
      const [whole, cut] = [yield* generate, yield* generate]
      const pieces = () => fake.callsOf("image").map((one) => [one.outcome, one.pieces])
      yield* TestClock.adjust(1_000)
      assert.deepStrictEqual(pieces(), [
        ["running", 1],
        ["running", 1],
      ])
      yield* TestClock.adjust(1_999)
      yield* Fiber.interrupt(cut)
      assert.isUndefined(whole.pollUnsafe())
      yield* TestClock.adjust(1)
      assert.deepStrictEqual(yield* Fiber.join(whole), defaultAnswers.image)
      assert.deepStrictEqual(pieces(), [
        ["answered", 3],
        ["interrupted", 2],
      ])
    }),
  )

  it.effect("transcribe the audio they could read", () =>
    Effect.gen(function* () {
      const fake = makeFakeProviders()
      const fault = new BlobCorrupt({ key: "uploads/1/1" })
      const content = Stream.concat(Stream.make(new Uint8Array(5)), Stream.fail(fault))
      assert.strictEqual(yield* Effect.flip(fake.providers.transcription({ audio: audio(content) }, call)), fault)
      assert.deepStrictEqual(
        fake.callsOf("transcription").map((one) => one.outcome),
        ["failed"],
      )
    }),
  )
})

describe("fake files", () => {
  it("an image is 1024 by 1024 black pixels", () => {
    const png = Buffer.from(fakePng())
    const at = png.indexOf("IDAT") + 4
    const pixels = inflateSync(png.subarray(at, at + png.readUInt32BE(at - 8)))
    assert.deepStrictEqual([pixels.length, pixels.every((byte) => byte === 0)], [1_024 * 129, true])
    assert.deepStrictEqual([png.readUInt32BE(16), png.readUInt32BE(20)], [1_024, 1_024])
  })

  it("have the bytes of their mark, different for each mark", () => {
    for (const make of [fakeMp3, fakePng]) {
      assert.deepStrictEqual(make("a"), make("a"))
      assert.notDeepEqual(make("a"), make("b"))
      assert.include(Buffer.from(make("Grüße")).toString(), "Grüße")
    }
    assert.strictEqual(fakeMp3("x".repeat(100_000), 2).length, 100_069)
  })
})

describe("FakeMediaProbe", () => {
  it.effect("returns the configured duration, after reading the file", () =>
    Effect.gen(function* () {
      const fake = makeFakeMediaProbe(2.5)
      const fault = new BlobCorrupt({ key: "uploads/1/1" })
      const probe = (content: Stream.Stream<Uint8Array, BlobCorrupt> = Stream.empty) =>
        MediaProbe.use((service) => service.probe({ format: "mp3", bytes: 9, content })).pipe(
          Effect.provide(fake.layer),
        )
      assert.deepStrictEqual(yield* probe(), { seconds: 2.5 })
      fake.measures(undefined)
      assert.deepStrictEqual(yield* probe(), { seconds: undefined })
      assert.strictEqual(yield* Effect.flip(probe(Stream.fail(fault))), fault)
      fake.measures("unreadable")
      assert.strictEqual((yield* Effect.flip(probe()))._tag, "MediaUnreadable")
      assert.deepStrictEqual(
        fake.probed(),
        Array.from({ length: 4 }, () => ({ format: "mp3", bytes: 9 })),
      )
    }),
  )
})
