import { assert, describe, it } from "@effect/vitest"
import { Engine } from "@kiln/core/effect"
import { authorize, billingOf } from "@kiln/core/domain"
import { BlobStore, JobStore, Switchboard } from "@kiln/core/ports"
import type { ProviderName, ProviderSet } from "@kiln/core/providers"
import {
  answer,
  type Behavior,
  defaultAnswers,
  fakeMp3,
  fakePng,
  huge,
  makeFakeProviders,
  malformed,
} from "@kiln/testing"
import { Effect, Stream } from "effect"
import { kind, principal, within } from "../support/harness.ts"
import {
  finished,
  openBoard,
  readJob,
  running,
  submitSpeech,
  submitVoiceTurn,
  submitTranscription,
} from "../support/jobs.ts"

const live = principal("live")
const MiB = 1_024 * 1_024

const submitImage = (key: string) =>
  Effect.gen(function* () {
    const board = yield* Switchboard
    yield* board.setPrice({ name: "svc-image", currency: "usd", unitAmounts: { images: "0.01" } })
    yield* board.activatePrice("svc-image", true)
    yield* board.setSwitch("images", true)
    const grant = authorize(live, "images.create")
    if (grant === undefined) throw new Error("the principal has no scope for images")
    const engine = yield* Engine
    return (yield* engine.createJob(grant, kind("image_generation"), { prompt: "a fox" }, key)).job
  })

const open = openBoard({ input_characters: "0.01", input_audio_seconds: "0.01", output_tokens: "0.01" }, [
  "speech_synthesis",
  "transcription",
  "voice_turn",
  "image_generation",
])

/** The ports a job may fail by, and the job. */
const jobs = {
  transcription: { submit: submitTranscription, whole: false },
  reply: { submit: submitVoiceTurn, whole: false },
  speech: { submit: submitSpeech, whole: false },
  image: { submit: submitImage, whole: false },
  voiceTurn: { submit: submitVoiceTurn, whole: true },
} as const

const text = (value: string) => new TextEncoder().encode(value)
const html = text("<!doctype html><html><body><h1>502 Bad Gateway</h1></body></html>")
const mp3 = fakeMp3("truncated")
const audio = (data: Uint8Array) => answer({ data, mediaType: "audio/mpeg" })
const image = (data: Uint8Array) => answer({ data, mediaType: "image/png" })
const { voiceTurn, reply } = defaultAnswers

type Case<N extends ProviderName> = readonly [name: string, behavior: Behavior<(typeof defaultAnswers)[N]>]
const cases: { readonly [N in ProviderName]: ReadonlyArray<Case<N>> } = {
  transcription: [
    ["nothing", malformed(undefined)],
    ["a number for its text", malformed({ text: 5 })],
    ["a text that no store keeps", answer({ text: "a\u0000b" })],
    ["a text that is too long", huge(1_000_001)],
  ],
  reply: [
    ["a bare text", malformed("hi")],
    ["white space", answer({ ...reply, text: " \n" })],
    ["a fraction of a token", answer({ ...reply, outputTokens: 2.5 })],
    ["fewer tokens than none", answer({ ...reply, outputTokens: -1 })],
    ["no count of tokens", malformed({ text: "hi", truncated: false })],
    ["a text that is too long", huge(1_000_001)],
  ],
  speech: [
    ["nothing", malformed(undefined)],
    ["a string for its bytes", malformed({ data: "SUQz", mediaType: "audio/mpeg" })],
    ["no bytes", audio(new Uint8Array())],
    ["a page of HTML", audio(html)],
    ["an error in JSON", audio(text('{"error":{"code":"server_error"}}'))],
    ["samples without a container", audio(new Uint8Array(48_000))],
    ["a file cut short", audio(mp3.subarray(0, -1))],
    ["a file that is too large", huge(32 * MiB + 1)],
  ],
  image: [
    ["nothing", malformed(null)],
    ["no bytes", image(new Uint8Array())],
    ["a page of HTML", image(html)],
    ["an MP3", image(mp3)],
    ["a file cut short", image(fakePng().subarray(0, -1))],
    ["a file with a bit flipped", image(fakePng().map((byte, index) => (index === 99 ? byte ^ 1 : byte)))],
    ["a file that is too large", huge(16 * MiB + 1)],
  ],
  voiceTurn: [
    ["nothing", malformed(undefined)],
    ["a turn without a voice", malformed({ ...voiceTurn, audio: undefined })],
    ["a turn without words", answer({ ...voiceTurn, text: "" })],
    ["a page of HTML for its voice", answer({ ...voiceTurn, audio: { data: html, mediaType: "audio/mpeg" } })],
    ["a voice cut short", answer({ ...voiceTurn, audio: { data: mp3.subarray(0, -1), mediaType: "audio/mpeg" } })],
    ["a voice that is too large", huge(32 * MiB + 1)],
  ],
}

/** Blobs of results, finished or not. */
const resultBlobs = Effect.flatMap(BlobStore, (blobs) => Stream.runCollect(blobs.list("jobs")))
const ledger = Effect.flatMap(JobStore, (store) =>
  Effect.map(
    store.listCharges({ from: 0, to: Number.MAX_SAFE_INTEGER, after: null, limit: 10 }),
    ({ entries }) => entries,
  ),
)

const suite = <N extends ProviderName>(port: N) => {
  describe(`a live job whose ${port} provider answers`, () => {
    for (const [name, behavior] of cases[port])
      it.effect(`${name}: result_invalid after its attempts, nothing stored, not charged`, () => {
        const fake = makeFakeProviders()
        fake.usually(port, behavior as Behavior<never>)
        const { submit, whole } = jobs[port]
        const providers: ProviderSet = whole ? { ...fake.providers, voiceTurn: fake.voiceTurn } : fake.providers
        return Effect.gen(function* () {
          yield* open
          yield* running
          const { id } = yield* submit("k", live)
          const job = yield* finished(id, "5 minutes", live)
          assert.deepStrictEqual([job.status, job.errorCode, job.attempts], ["failed", "result_invalid", 3])
          assert.deepStrictEqual([job.output, job.files, job.charge], [null, [], null])
          assert.strictEqual(billingOf(job, "usd").status, "not_charged")
          assert.strictEqual(fake.callsOf(port).length, 3)
          assert.deepStrictEqual([yield* resultBlobs, yield* ledger], [[], []])
        }).pipe(within({ live: providers }))
      })

    it.effect("correctly the second time is done and charged once", () => {
      const fake = makeFakeProviders()
      fake.script(port, malformed(undefined))
      const { submit, whole } = jobs[port]
      const providers: ProviderSet = whole ? { ...fake.providers, voiceTurn: fake.voiceTurn } : fake.providers
      return Effect.gen(function* () {
        yield* open
        yield* running
        const { id } = yield* submit("k", live)
        yield* finished(id, "5 minutes", live)
        const job = yield* readJob(id, live)
        assert.deepStrictEqual([job.status, job.failures, fake.callsOf(port).length], ["done", 1, 2])
        assert.deepStrictEqual(
          (yield* ledger).map((entry) => entry.jobId),
          [id],
        )
        assert.deepStrictEqual(
          yield* resultBlobs,
          job.files.map((file) => file.blobKey),
        )
      }).pipe(within({ live: providers }))
    })
  })
}

suite("transcription")
suite("reply")
suite("speech")
suite("image")
suite("voiceTurn")

describe("a live job whose provider returns other audio than it declares", () => {
  it.effect("is done, and its file has the type of its bytes", () => {
    const fake = makeFakeProviders()
    const wav = text(
      "RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x22\x56\0\0\x44\x2c\0\0\x02\0\x10\0data\x04\0\0\0abcd",
    )
    fake.usually("speech", answer({ data: wav, mediaType: "text/html" }))
    return Effect.gen(function* () {
      yield* open
      yield* running
      const { id } = yield* submitSpeech("k", live)
      const job = yield* finished(id, "1 minutes", live)
      assert.deepStrictEqual([job.status, job.files.map((file) => file.mediaType)], ["done", ["audio/wav"]])
    }).pipe(within({ live: fake.providers }))
  })
})
