import { assert, describe, it } from "@effect/vitest"
import { BlobCorrupt } from "@kiln/core/domain"
import { MediaProbe, type ProviderCall } from "@kiln/core/ports"
import { Effect, Fiber, Stream } from "effect"
import { TestClock } from "effect/testing"
import {
  answer,
  answerLate,
  defaultAnswers,
  failWith,
  hang,
  makeFakeMediaProbe,
  makeFakeProviders,
} from "../src/fakes/index.ts"

const call: ProviderCall = { jobId: "job_00000000000000000000000000", attempt: 1, failures: 0 }
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
      assert.deepStrictEqual(yield* transcription.transcribe({ audio: audio() }, call), defaultAnswers.transcription)
      assert.deepStrictEqual(yield* reply.reply(request, call), defaultAnswers.reply)
      assert.deepStrictEqual(yield* speech.speak({ text: "Hi", voice: "nova" }, call), defaultAnswers.speech)
      assert.deepStrictEqual(yield* image.generate({ prompt: "a fox" }, { ...call, attempt: 2 }), defaultAnswers.image)
      assert.deepStrictEqual(
        fake.calls().map((one) => one.provider),
        ["transcription", "reply", "speech", "image"],
      )
      assert.deepStrictEqual(fake.callsOf("image"), [
        { provider: "image", request: { prompt: "a fox" }, call: { ...call, attempt: 2 }, outcome: "answered" },
      ])
    }),
  )

  it.effect("follow their script once, in order, then do as usual", () =>
    Effect.gen(function* () {
      const fake = makeFakeProviders()
      const other = { text: "other", outputTokens: 1, truncated: true }
      fake.script("reply", failWith(), answer(other))
      fake.script("reply", failWith({ errorCode: "content_rejected", retry: false, retryAfterMs: 7 }))
      fake.usually("reply", answer({ ...other, text: "usual" }))
      const ask = fake.providers.reply.reply(request, call)
      assert.deepInclude(yield* Effect.flip(ask), { errorCode: "provider_unavailable", retry: true })
      assert.deepStrictEqual(yield* ask, other)
      assert.deepInclude(yield* Effect.flip(ask), { errorCode: "content_rejected", retry: false, retryAfterMs: 7 })
      for (let i = 0; i < 2; i++) assert.strictEqual((yield* ask).text, "usual")
      assert.deepStrictEqual(
        fake.callsOf("reply").map((one) => one.outcome),
        ["failed", "answered", "failed", "answered", "answered"],
      )
      yield* fake.providers.image.generate({ prompt: "untouched" }, call)
    }),
  )

  it.effect("hang until they are interrupted, and tell when they were called", () =>
    Effect.gen(function* () {
      const fake = makeFakeProviders()
      fake.usually("speech", hang)
      const speak = fake.providers.speech.speak({ text: "Hi", voice: "nova" }, call)
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
      const fiber = yield* Effect.forkChild(fake.providers.image.generate({ prompt: "a fox" }, call), {
        startImmediately: true,
      })
      yield* TestClock.adjust(59_999)
      assert.isUndefined(fiber.pollUnsafe())
      yield* TestClock.adjust(1)
      assert.deepStrictEqual(yield* Fiber.join(fiber), defaultAnswers.image)
    }),
  )

  it.effect("transcribe what they could read", () =>
    Effect.gen(function* () {
      const fake = makeFakeProviders()
      const fault = new BlobCorrupt({ key: "uploads/1/1" })
      const content = Stream.concat(Stream.make(new Uint8Array(5)), Stream.fail(fault))
      assert.strictEqual(
        yield* Effect.flip(fake.providers.transcription.transcribe({ audio: audio(content) }, call)),
        fault,
      )
      assert.deepStrictEqual(
        fake.callsOf("transcription").map((one) => one.outcome),
        ["failed"],
      )
    }),
  )
})

describe("FakeMediaProbe", () => {
  it.effect("measures what it is told, after reading the file", () =>
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
