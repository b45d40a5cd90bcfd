import { spawnSync } from "node:child_process"
import { assert, describe, it } from "@effect/vitest"
import { audioFormats, BlobCorrupt, BlobUnavailable } from "@kiln/core/domain"
import { sandboxProviders } from "@kiln/provider-sandbox"
import { Effect, Stream } from "effect"
import { drawTiles } from "../src/drawTiles.ts"
import { audio, firstCall } from "./support/calls.ts"
import { decodePng } from "./support/decodePng.ts"
import { walkMp3 } from "./support/walkMp3.ts"

const { image, reply, speech, transcription } = sandboxProviders({ steering: true })
const defaultVoices = ["alloy", "echo", "fable", "nova", "onyx", "shimmer"]

const speak = (voice: string) => speech({ text: "Hello", voice }, firstCall)
const paint = (prompt: string) => image({ prompt }, firstCall)
const answer = (maxOutputTokens: number) =>
  reply({ text: "Hello", instructions: undefined, maxOutputTokens }, firstCall)

describe("transcription", () => {
  it.effect("names the format and the seconds, with one decimal", () =>
    Effect.gen(function* () {
      const texts = yield* Effect.forEach([3.2, 3, 0.1, 3.25, 899.96, 4.149375], (seconds) =>
        transcription({ audio: audio("wav", seconds) }, firstCall),
      )
      assert.deepStrictEqual(
        texts.map(({ text }) => text),
        ["3.2", "3.0", "0.1", "3.3", "900.0", "4.1"].map((s) => `Sandbox transcript of a wav file of ${s} seconds.`),
      )
      for (const format of audioFormats) {
        const { text } = yield* transcription({ audio: audio(format, 1) }, firstCall)
        assert.match(text, new RegExp(`^Sandbox transcript of an? ${format} file of 1\\.0 seconds\\.$`))
      }
    }),
  )

  it.effect("reads the audio to its end, and passes its errors on", () =>
    Effect.gen(function* () {
      const corrupt = new BlobCorrupt({ key: "uploads/1/1" })
      const missing = new BlobUnavailable({ operation: "read", cause: new Error("gone") })
      let bytes = 0
      const content = Stream.make(new Uint8Array(70_000), new Uint8Array(5)).pipe(
        Stream.tap((chunk) => Effect.sync(() => (bytes += chunk.length))),
      )
      yield* transcription({ audio: audio("mp3", 1, content) }, firstCall)
      assert.strictEqual(bytes, 70_005)
      for (const fault of [corrupt, missing]) {
        const damaged = Stream.concat(content, Stream.fail(fault))
        const failure = yield* Effect.flip(transcription({ audio: audio("mp3", 1, damaged) }, firstCall))
        assert.strictEqual(failure, fault)
      }
    }),
  )
})

describe("speech", () => {
  it.effect("speaks a valid MP3 in six different voices", () =>
    Effect.gen(function* () {
      const files = yield* Effect.forEach(defaultVoices, speak)
      for (const { data, mediaType } of files) {
        assert.strictEqual(mediaType, "audio/mpeg")
        const walked = walkMp3(data)
        assert.isAbove(walked.seconds, 0.5)
        assert.isBelow(data.length, 15_000)
        assert.deepStrictEqual([...walked.sampleRates], [24_000])
        assert.deepStrictEqual([...walked.channelModes], [3], "mono")
      }
      assert.strictEqual(new Set(files.map(({ data }) => Buffer.from(data).toString("hex"))).size, defaultVoices.length)
    }),
  )

  it.effect("returns the first voice's sample for any unknown voice", () =>
    Effect.gen(function* () {
      const alloy = yield* speak("alloy")
      for (const voice of [
        "",
        "ALLOY",
        "__proto__",
        "constructor",
        "../../package",
        "alloy.mp3",
        "\0",
        "en-US-Neural2-A",
      ])
        assert.deepStrictEqual(yield* speak(voice), alloy)
    }),
  )

  it.effect("returns the same bytes each time, even after a caller changed its copy", () =>
    Effect.gen(function* () {
      const first = yield* speak("nova")
      const kept = first.data.slice()
      first.data.fill(0)
      new Uint8Array(first.data.buffer).fill(0)
      assert.deepStrictEqual((yield* speak("nova")).data, kept)
    }),
  )
})

describe("reply", () => {
  it.effect("is a few sentences, truncated to the allowed tokens, one word each", () =>
    Effect.gen(function* () {
      const whole = yield* answer(1024)
      const words = whole.text.split(" ")
      assert.isAtLeast(words.length, 40)
      assert.match(whole.text, /^[A-Z].*\.$/)
      assert.deepStrictEqual(whole, { text: words.join(" "), outputTokens: words.length, truncated: false })
      assert.deepStrictEqual(yield* answer(words.length), whole)
      for (const tokens of [1, 2, words.length - 1])
        assert.deepStrictEqual(yield* answer(tokens), {
          text: words.slice(0, tokens).join(" "),
          outputTokens: tokens,
          truncated: true,
        })
    }),
  )
})

describe("image", () => {
  it.effect("is a valid 1024 × 1024 PNG under 200 KB, determined by the prompt", () =>
    Effect.gen(function* () {
      const prompts = ["a fox", "a fax", " a fox", "狐".repeat(4000), "__proto__"]
      const files = yield* Effect.forEach(prompts, paint)
      for (const { data, mediaType } of files) {
        assert.strictEqual(mediaType, "image/png")
        assert.isBelow(data.length, 200_000)
        const picture = decodePng(data)
        assert.deepStrictEqual([picture.width, picture.height], [1024, 1024])
        const colors = new Set(
          Array.from({ length: 4096 }, (_, i) => picture.pixel((i % 64) * 16 + 8, (i >> 6) * 16 + 8).join()),
        )
        assert.isAtLeast(colors.size, 8, "a picture, not an empty wall")
      }
      assert.strictEqual(new Set(files.map(({ data }) => Buffer.from(data).toString("hex"))).size, prompts.length)
      assert.deepStrictEqual(yield* paint("a fox"), files[0])
    }),
  )

  it.effect("yields to other fibers while it draws", () =>
    Effect.gen(function* () {
      let turns = 0
      let drawing = true
      const count = () => {
        turns++
        if (drawing) setImmediate(count)
      }
      setImmediate(count)
      yield* drawTiles("a busy wall")
      drawing = false
      assert.isAtLeast(turns, 60, "one yield for each of 64 tiles, except the first and the last")
    }),
  )
})

const hasFfprobe = spawnSync("ffprobe", ["-version"]).status === 0
const noFfprobe = "ffprobe is not installed; the walkers above have checked the same files"

it.effect("third-party decoders agree", (context) =>
  Effect.gen(function* () {
    if (!hasFfprobe) return context.skip(noFfprobe)
    const ffprobe = (file: Uint8Array, fields: string) =>
      spawnSync("ffprobe", ["-v", "error", "-show_entries", fields, "-of", "csv=p=0", "-i", "pipe:0"], { input: file })
    for (const voice of defaultVoices) {
      const run = ffprobe((yield* speak(voice)).data, "stream=codec_name,sample_rate,channels")
      assert.deepStrictEqual([run.stdout.toString().trim(), run.stderr.toString()], ["mp3,24000,1", ""])
    }
    const run = ffprobe((yield* paint("a fox")).data, "stream=codec_name,width,height")
    assert.deepStrictEqual([run.stdout.toString().trim(), run.stderr.toString()], ["png,1024,1024", ""])
  }),
)

it("unknown options are rejected", () => {
  assert.throws(
    () => sandboxProviders({ steer: false } as never),
    'unknown option "steer" in sandboxProviders(); did you mean "steering"?',
  )
  assert.throws(() => sandboxProviders({ steering: "off" as never }), "steering must be true or false")
})
