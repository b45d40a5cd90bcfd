import { assert, describe, it } from "@effect/vitest"
import type { AsyncCall } from "@kiln/core"
import { providerSet } from "@kiln/core/effect"
import {
  type AudioInput,
  effectProvider,
  providerBroken,
  type ProviderCall,
  providerRefused,
  resultInvalid,
} from "@kiln/core/providers"
import { BlobUnavailable } from "@kiln/core/domain"
import { defaultAnswers } from "@kiln/testing"
import { Effect, Fiber, Stream } from "effect"

const call: ProviderCall = { jobId: "job_a", attempt: 2, failures: 1, deferrals: 0 }
const heard = (content: AudioInput["content"]): AudioInput => ({ format: "wav", bytes: 5, seconds: 1, content })
const pieces = Stream.make(Uint8Array.of(1, 2), Uint8Array.of(3), Uint8Array.of(4, 5))

describe("providerSet", () => {
  it("has exactly the ports that were given", () => {
    assert.deepStrictEqual(providerSet({}), {})
    assert.deepStrictEqual(providerSet(undefined), {})
    assert.deepStrictEqual(Object.keys(providerSet({ reply: () => Promise.reject(new Error("x")) })), ["reply"])
  })

  it("leaves providers that were created elsewhere unchanged", () => {
    const speech = effectProvider("speech", () => Effect.succeed(defaultAnswers.speech))
    assert.strictEqual(providerSet({ speech }).speech, speech)
  })

  it.effect("is called with the request and the call, and returns the resolved value", () =>
    Effect.gen(function* () {
      const asked: Array<unknown> = []
      const note =
        <A>(answer: A) =>
        async (request: unknown, { signal, ...rest }: AsyncCall) => {
          asked.push({ request, rest, aborted: signal.aborted })
          return answer
        }
      const turn = { text: "t", outputTokens: 1, truncated: false, audio: defaultAnswers.speech }
      const { image, reply, speech, transcription, voiceTurn } = providerSet({
        transcription: note({ text: "hi" }),
        reply: note({ text: "a", outputTokens: 1, truncated: false }),
        speech: note(defaultAnswers.speech),
        image: note(defaultAnswers.image),
        voiceTurn: note(turn),
      })
      const audio = { format: "wav", bytes: 5, seconds: 1, data: Uint8Array.of(1, 2, 3, 4, 5) }
      const words = { text: "x", instructions: undefined, maxOutputTokens: 4 }
      assert.deepStrictEqual(yield* transcription!({ audio: heard(pieces) }, call), { text: "hi" })
      assert.deepStrictEqual((yield* reply!(words, call)).text, "a")
      assert.strictEqual(yield* speech!({ text: "x", voice: "v" }, call), defaultAnswers.speech)
      assert.strictEqual(yield* image!({ prompt: "p" }, call), defaultAnswers.image)
      const whole = { instructions: undefined, maxOutputTokens: 4, voice: "v" }
      assert.strictEqual(yield* voiceTurn!({ ...whole, audio: heard(pieces) }, call), turn)
      assert.deepStrictEqual(
        asked,
        [{ audio }, words, { text: "x", voice: "v" }, { prompt: "p" }, { ...whole, audio }].map((request) => ({
          request,
          rest: call,
          aborted: false,
        })),
      )
    }),
  )

  const failing = (thrown: unknown) =>
    Effect.flip(
      providerSet({
        image: () => {
          throw thrown
        },
      }).image!({ prompt: "secret prompt" }, call),
    )

  it.effect("fails with the given failure", () =>
    Effect.gen(function* () {
      for (const told of [providerRefused("content", "no"), providerBroken("quota", "empty"), resultInvalid("what")])
        assert.strictEqual(yield* failing(told), told)
    }),
  )

  it.effect("treats any other error as an unavailable provider, and repeats none of its text", () =>
    Effect.gen(function* () {
      for (const thrown of [new TypeError("secret prompt"), "secret prompt", undefined, { message: "secret prompt" }]) {
        const failure = yield* failing(thrown)
        assert.strictEqual(failure._tag === "ProviderFailure" && failure.errorCode, "provider_unavailable")
        assert.strictEqual(failure._tag === "ProviderFailure" && failure.retry, true)
        assert.notInclude(JSON.stringify(failure), "secret")
      }
    }),
  )

  it.effect("aborts the signal when it is interrupted", () =>
    Effect.gen(function* () {
      let signal: AbortSignal | undefined
      const { image } = providerSet({
        image: (_request, about) => {
          signal = about.signal
          return new Promise(() => undefined)
        },
      })
      const fiber = yield* Effect.forkChild(image!({ prompt: "p" }, call))
      yield* Effect.yieldNow
      yield* Effect.yieldNow
      assert.strictEqual(signal?.aborted, false)
      yield* Fiber.interrupt(fiber)
      assert.strictEqual(signal?.aborted, true)
    }),
  )

  it.effect("is not called if the audio cannot be read", () =>
    Effect.gen(function* () {
      let asked = false
      const { transcription } = providerSet({
        transcription: async () => {
          asked = true
          return { text: "" }
        },
      })
      const away = new BlobUnavailable({ operation: "open", cause: "test" })
      const audio = heard(Stream.concat(Stream.make(Uint8Array.of(1)), Stream.fail(away)))
      assert.strictEqual(yield* Effect.flip(transcription!({ audio }, call)), away)
      assert.isFalse(asked)
    }),
  )
})
