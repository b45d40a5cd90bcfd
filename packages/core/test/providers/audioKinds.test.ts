import { assert, describe, it } from "@effect/vitest"
import { Switchboard } from "@kiln/core/ports"
import type { ProviderSet, Transcript } from "@kiln/core/providers"
import { answer, answerLate, defaultAnswers, failWith, makeFakeProviders, MemoryStores } from "@kiln/testing"
import { Effect, Stream } from "effect"
import { heardAudio } from "../../src/kinds/uploadedAudio.ts"
import { principal, within } from "../support/harness.ts"
import { finished, openBoard, running, submitTranscription, submitVoiceTurn } from "../support/jobs.ts"
import { passTime, passUntil } from "../support/virtualTime.ts"

const live = principal("live")
const open = openBoard({ input_audio_seconds: "0.1", output_tokens: "0.01" })

/** The length of a file that the probe could not measure. */
const unmeasured = Number.NaN

/** Runs one live job to its end with these providers. The file has the given length and was declared as 3 s. */
const run = (submit: typeof submitTranscription, providers: ProviderSet, seconds = 3, stores = MemoryStores.layer) =>
  Effect.gen(function* () {
    yield* open
    const { id } = yield* submit("k", live)
    yield* running
    return yield* finished(id, "1 minutes", live)
  }).pipe(within({ live: providers, seconds, stores }))

const quantities = (job: Effect.Success<ReturnType<typeof run>>) =>
  Object.fromEntries((job.charge?.lineItems ?? []).map(({ meter, quantity }) => [meter, quantity]))

describe("the length of audio", () => {
  const hearing = (transcript: Transcript) => {
    const fake = makeFakeProviders()
    fake.usually("transcription", answer(transcript))
    return fake
  }

  it.effect.each<
    [what: string, reported: number | undefined, measured: number, billed: number, warning: string | null]
  >([
    ["is the measured one if the provider reports none", undefined, 3.2, 4, null],
    ["is the measured one if the provider reports less", 1, 3.2, 4, null],
    ["is the measured one if the provider reports more", 900, 3.2, 4, null],
    ["is the measured one if the provider reports more than the limit", 901.5, 3.2, 4, null],
    ["is the declared one if nothing was measured or reported", undefined, unmeasured, 3, null],
    ["is the declared one if the provider reports less", 1, unmeasured, 3, null],
    ["is the provider's if nothing was measured", 4.01, unmeasured, 5, null],
    [
      "is the provider's, with a warning if it differs much from the declared one",
      5.01,
      unmeasured,
      6,
      "duration_mismatch",
    ],
    ["is the declared one if the provider reports NaN", Number.NaN, unmeasured, 3, null],
    ["is the declared one if the provider reports Infinity", Infinity, unmeasured, 3, null],
    ["is the declared one if the provider reports a negative one", -1, unmeasured, 3, null],
  ])("%s", ([, seconds, measured, billed, warning]) =>
    Effect.gen(function* () {
      const job = yield* run(submitTranscription, hearing({ text: "hi", seconds }).providers, measured)
      assert.strictEqual(job.status, "done")
      assert.deepStrictEqual(quantities(job), { input_audio_seconds: billed })
      assert.strictEqual(job.warningCode, warning)
    }),
  )

  const heard = (seconds: number, declaredSeconds: number, reported?: number) =>
    heardAudio(
      {
        format: "wav",
        bytes: 1,
        content: Stream.empty,
        seconds,
        declaredSeconds,
        isMeasured: reported === undefined,
      },
      reported,
    )

  it.effect("gives a warning beyond 2 s and 5 % of the declared length, not of the measured one", () =>
    Effect.gen(function* () {
      const warningOf = (...given: Parameters<typeof heard>) =>
        Effect.map(heard(...given), ({ warningCode }) => warningCode)
      assert.isUndefined(yield* warningOf(105, 100))
      assert.strictEqual(yield* warningOf(105.1, 100), "duration_mismatch")
      assert.strictEqual(yield* warningOf(94.9, 100), "duration_mismatch")
      assert.isUndefined(yield* warningOf(12, 10))
      assert.strictEqual(yield* warningOf(12.1, 10), "duration_mismatch")
    }),
  )

  it.effect("may equal the limit, measured or reported", () =>
    Effect.gen(function* () {
      assert.strictEqual((yield* heard(901, 900)).billedSeconds, 901)
      assert.strictEqual((yield* heard(900, 900, 901)).billedSeconds, 901)
      assert.strictEqual((yield* Effect.flip(heard(900, 900, 901.001))).errorCode, "audio_too_long")
    }),
  )

  it.effect("exceeds the limit if the provider says so: the job fails at no charge", () =>
    Effect.gen(function* () {
      const fake = hearing({ text: "hi", seconds: 901.5 })
      const job = yield* run(submitTranscription, fake.providers, unmeasured)
      assert.deepStrictEqual([job.status, job.errorCode, job.charge], ["failed", "audio_too_long", null])
      assert.strictEqual(fake.calls().length, 1)
    }),
  )

  it.effect("exceeds the limit for a voice turn before a reply is requested", () =>
    Effect.gen(function* () {
      const fake = hearing({ text: "hi", seconds: 901.5 })
      const job = yield* run(submitVoiceTurn, fake.providers, unmeasured)
      assert.deepStrictEqual([job.status, job.errorCode, job.charge], ["failed", "audio_too_long", null])
      assert.deepStrictEqual(
        fake.calls().map(({ provider }) => provider),
        ["transcription"],
      )
    }),
  )

  it.effect("counts for a voice turn that resumes in the middle: it is kept with the transcript", () => {
    const fake = hearing({ text: "hi", seconds: 4.5 })
    fake.script("reply", failWith())
    return Effect.gen(function* () {
      const job = yield* run(submitVoiceTurn, fake.providers, unmeasured)
      assert.strictEqual(fake.callsOf("transcription").length, 1)
      assert.strictEqual(fake.callsOf("reply").length, 2)
      assert.deepStrictEqual(quantities(job), { input_audio_seconds: 5, output_tokens: 2 })
    })
  })
})

describe("a voice turn", () => {
  it.effect("warns if there is no speech, and more strongly if the reply was cut", () => {
    const fake = makeFakeProviders()
    fake.usually("transcription", answer({ text: " \n" }))
    return Effect.gen(function* () {
      assert.strictEqual((yield* run(submitVoiceTurn, fake.providers)).warningCode, "no_speech_detected")
      fake.usually("reply", answer({ text: "well", outputTokens: 5, truncated: true }))
      assert.strictEqual((yield* run(submitVoiceTurn, fake.providers)).warningCode, "output_truncated")
    })
  })

  it.effect.each<[where: string, text: string, characters: number]>([
    ["between two words", "word ".repeat(1_000), 4_094],
    ["in a word of that length", "💡".repeat(4_200), 4_096],
  ])("cuts a reply that is too long for speech %s, and returns the spoken text", ([, text, characters]) => {
    const fake = makeFakeProviders()
    fake.usually("reply", answer({ text, outputTokens: 5, truncated: false }))
    return Effect.gen(function* () {
      const job = yield* run(submitVoiceTurn, fake.providers)
      const [spoken] = fake.callsOf("speech").map(({ request }) => request.text)
      assert.strictEqual(job.warningCode, "output_truncated")
      assert.deepStrictEqual(job.output, { text: spoken ?? null })
      assert.strictEqual([...(spoken ?? "")].length, characters)
      assert.isTrue(text.startsWith(spoken ?? "?"))
    })
  })

  it.effect("charges at most the requested tokens, whatever the provider counts", () => {
    const fake = makeFakeProviders()
    fake.usually("reply", answer({ text: "well", outputTokens: 900, truncated: false }))
    return Effect.gen(function* () {
      assert.deepStrictEqual(quantities(yield* run(submitVoiceTurn, fake.providers)), {
        input_audio_seconds: 3,
        output_tokens: 5,
      })
    })
  })

  it.effect("uses the voice-turn provider if there is one", () => {
    const fake = makeFakeProviders()
    fake.usually(
      "voiceTurn",
      answer({
        text: "well",
        outputTokens: 3,
        truncated: false,
        transcript: "hi",
        seconds: 4.2,
        audio: defaultAnswers.speech,
      }),
    )
    return Effect.gen(function* () {
      const job = yield* run(submitVoiceTurn, { ...fake.providers, voiceTurn: fake.voiceTurn })
      assert.deepStrictEqual(
        fake.calls().map(({ provider }) => provider),
        ["voiceTurn"],
      )
      assert.deepStrictEqual(job.output, { text: "well" })
      assert.deepStrictEqual(
        job.files.map(({ mediaType, name }) => ({ mediaType, name })),
        [{ mediaType: "audio/mpeg", name: "audio" }],
      )
      assert.deepStrictEqual(quantities(job), { input_audio_seconds: 3, output_tokens: 3 })
    })
  })

  it.effect.each<[how: string, whole: boolean]>([
    ["in steps", false],
    ["by one provider", true],
  ])("made %s gets the caller's instructions and voice, and returns its outcome", ([, whole]) => {
    const fake = makeFakeProviders()
    const said = { text: "well", outputTokens: 3, truncated: true }
    fake.usually("reply", answer(said))
    fake.usually("voiceTurn", answer({ ...said, transcript: "", audio: defaultAnswers.speech }))
    const submit = (key: string, who = live) => submitVoiceTurn(key, who, { instructions: "Be brief.", voice: "nova" })
    return Effect.gen(function* () {
      const job = yield* run(submit, whole ? { voiceTurn: fake.voiceTurn } : fake.providers)
      assert.strictEqual(job.warningCode, "output_truncated")
      const [asked] = whole ? fake.callsOf("voiceTurn") : fake.callsOf("reply")
      assert.deepInclude(asked?.request, { instructions: "Be brief.", maxOutputTokens: 5 })
      const [spoken] = whole ? fake.callsOf("voiceTurn") : fake.callsOf("speech")
      assert.deepInclude(spoken?.request, { voice: "nova" })
    })
  })

  it.effect("made by one provider warns if that provider heard no speech, but not if it does not say", () => {
    const fake = makeFakeProviders()
    const turn = { text: "well", outputTokens: 3, truncated: false, audio: defaultAnswers.speech }
    return Effect.gen(function* () {
      fake.usually("voiceTurn", answer({ ...turn, transcript: " " }))
      assert.strictEqual((yield* run(submitVoiceTurn, { voiceTurn: fake.voiceTurn })).warningCode, "no_speech_detected")
      fake.usually("voiceTurn", answer(turn))
      assert.isNull((yield* run(submitVoiceTurn, { voiceTurn: fake.voiceTurn })).warningCode)
    })
  })

  it.effect("is not spoken if a switch was turned off during the reply, and is spoken once it is on again", () => {
    const fake = makeFakeProviders()
    fake.script("reply", answerLate(2_000, defaultAnswers.reply))
    return Effect.gen(function* () {
      yield* open
      const board = yield* Switchboard
      const { id } = yield* submitVoiceTurn("k", live)
      yield* running
      yield* passUntil(
        "a reply is asked for",
        Effect.sync(() => fake.callsOf("reply").length === 1),
        "5 seconds",
      )
      yield* board.setSwitch("audio", false)
      yield* passTime("10 seconds")
      assert.strictEqual(fake.callsOf("speech").length, 0)
      yield* board.setSwitch("audio", true)
      assert.strictEqual((yield* finished(id, "1 minutes", live)).status, "done")
      assert.deepStrictEqual(
        fake.calls().map(({ provider }) => provider),
        ["transcription", "reply", "speech"],
      )
    }).pipe(within({ live: fake.providers }))
  })

  it.effect("needs no other provider then; without it, all three", () => {
    const { providers, voiceTurn } = makeFakeProviders()
    return Effect.gen(function* () {
      assert.strictEqual((yield* run(submitVoiceTurn, { voiceTurn })).status, "done")
      const { reply: _, ...others } = providers
      assert.strictEqual((yield* run(submitVoiceTurn, others)).status, "queued")
    })
  })

  it.effect("made by one provider is checked like one made in steps", () => {
    const fake = makeFakeProviders()
    const turn = { text: "well", outputTokens: 3, truncated: false, audio: defaultAnswers.speech }
    return Effect.gen(function* () {
      const wrong = [
        { ...turn, text: " " },
        { ...turn, outputTokens: -1 },
        { ...turn, transcript: "\u0000" },
        { ...turn, audio: { data: new Uint8Array(10), mediaType: "audio/mpeg" } },
      ]
      for (const each of wrong) {
        fake.usually("voiceTurn", answer(each))
        const job = yield* run(submitVoiceTurn, { voiceTurn: fake.voiceTurn })
        assert.deepStrictEqual([job.status, job.errorCode, job.charge], ["failed", "result_invalid", null])
      }
    })
  })
})
