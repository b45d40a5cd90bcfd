import { assert, describe, it } from "@effect/vitest"
import type { ProviderSet, Transcript } from "@kiln/core"
import { answer, defaultAnswers, failWith, makeFakeProviders } from "@kiln/testing"
import { Effect } from "effect"
import { principal, within } from "../support/harness.ts"
import { finished, openBoard, running, submitTranscription, submitVoiceTurn } from "../support/jobs.ts"

const live = principal("live")
const open = openBoard({ input_audio_seconds: "0.1", output_tokens: "0.01" })

/** Runs one live job to its end, over these providers; the file measures so many seconds and was declared as 3. */
const run = (submit: typeof submitTranscription, providers: ProviderSet, seconds = 3) =>
  Effect.gen(function* () {
    yield* open
    const { id } = yield* submit("k", live)
    yield* running
    return yield* finished(id, "1 minutes", live)
  }).pipe(within({ live: providers, seconds }))

const quantities = (job: Effect.Success<ReturnType<typeof run>>) =>
  Object.fromEntries((job.charge?.lineItems ?? []).map(({ meter, quantity }) => [meter, quantity]))

describe("how long audio is", () => {
  const hearing = (transcript: Transcript) => {
    const fake = makeFakeProviders()
    fake.usually("transcription", answer(transcript))
    return fake
  }

  it.effect.each<
    [what: string, reported: number | undefined, measured: number, billed: number, warning: string | null]
  >([
    ["is what was measured, where the provider says nothing", undefined, 3.2, 4, null],
    ["is what was measured, where the provider says less", 1, 3.2, 4, null],
    ["is what the provider says, where that is longer", 4.01, 3.2, 5, null],
    [
      "is what the provider says, with a warning where it is far from what was declared",
      5.01,
      3,
      6,
      "duration_mismatch",
    ],
    ["is what was measured, where the provider talks nonsense", Number.NaN, 3.2, 4, null],
    ["is what was measured, where the provider knows no end", Infinity, 3.2, 4, null],
    ["is what was measured, where the provider counts backwards", -1, 3.2, 4, null],
  ])("%s", ([, seconds, measured, billed, warning]) =>
    Effect.gen(function* () {
      const job = yield* run(submitTranscription, hearing({ text: "hi", seconds }).providers, measured)
      assert.strictEqual(job.status, "done")
      assert.deepStrictEqual(quantities(job), { input_audio_seconds: billed })
      assert.strictEqual(job.warningCode, warning)
    }),
  )

  it.effect("is over the limit where the provider says so: the job fails, and nobody pays", () =>
    Effect.gen(function* () {
      const fake = hearing({ text: "hi", seconds: 901.5 })
      const job = yield* run(submitTranscription, fake.providers)
      assert.deepStrictEqual([job.status, job.errorCode, job.charge], ["failed", "audio_too_long", null])
      assert.strictEqual(fake.calls().length, 1)
    }),
  )

  it.effect("is over the limit for a voice turn before a reply is bought", () =>
    Effect.gen(function* () {
      const fake = hearing({ text: "hi", seconds: 901.5 })
      const job = yield* run(submitVoiceTurn, fake.providers)
      assert.deepStrictEqual([job.status, job.errorCode, job.charge], ["failed", "audio_too_long", null])
      assert.deepStrictEqual(
        fake.calls().map(({ provider }) => provider),
        ["transcription"],
      )
    }),
  )

  it.effect("counts for a voice turn that begins again in the middle: it was kept with the transcript", () => {
    const fake = hearing({ text: "hi", seconds: 4.5 })
    fake.script("reply", failWith())
    return Effect.gen(function* () {
      const job = yield* run(submitVoiceTurn, fake.providers)
      assert.strictEqual(fake.callsOf("transcription").length, 1)
      assert.strictEqual(fake.callsOf("reply").length, 2)
      assert.deepStrictEqual(quantities(job), { input_audio_seconds: 5, output_tokens: 2 })
    })
  })
})

describe("a voice turn", () => {
  it.effect("warns where nobody spoke, and more strongly where the reply was cut short", () => {
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
    ["in a word as long as that", "💡".repeat(4_200), 4_096],
  ])("cuts a reply that is too long to be spoken %s, and says what was spoken", ([, text, characters]) => {
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

  it.effect("charges no more tokens than were asked for, whatever the provider counts", () => {
    const fake = makeFakeProviders()
    fake.usually("reply", answer({ text: "well", outputTokens: 900, truncated: false }))
    return Effect.gen(function* () {
      assert.deepStrictEqual(quantities(yield* run(submitVoiceTurn, fake.providers)), {
        input_audio_seconds: 3,
        output_tokens: 5,
      })
    })
  })

  it.effect("is made by one provider that does it whole, where there is one", () => {
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
      assert.deepStrictEqual(quantities(job), { input_audio_seconds: 5, output_tokens: 3 })
    })
  })

  it.effect("needs no other provider then; and without it, needs all three", () => {
    const { providers, voiceTurn } = makeFakeProviders()
    return Effect.gen(function* () {
      assert.strictEqual((yield* run(submitVoiceTurn, { voiceTurn })).status, "done")
      const { reply: _, ...others } = providers
      assert.strictEqual((yield* run(submitVoiceTurn, others)).status, "queued")
    })
  })

  it.effect("made whole is checked like one made in steps", () => {
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
