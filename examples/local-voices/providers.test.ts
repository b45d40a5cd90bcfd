import { readdirSync, readFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { AudioFormat } from "@kiln/core/domain"
import { Effect } from "effect"
import { describe, expect, it } from "vitest"
import { espeakSpeech } from "./espeakSpeech.ts"
import { pocketsphinxTranscription } from "./pocketsphinxTranscription.ts"
import { reflectiveReply } from "./reflectiveReply.ts"
import { audioInput, call } from "./support/call.ts"
import { describeWith } from "./support/needs.ts"
import { understood } from "./support/words.ts"
import { tone, writeWav } from "./support/writeWav.ts"
import { openWav } from "./wav.ts"

const run = Effect.runPromise
const sentence = "I think that she would like to go to the city in the morning."
const silence = writeWav({ sampleRate: 16_000, channels: 1, bits: 16 }, [new Float32Array(16_000)])
const temporaryFiles = () => readdirSync(tmpdir()).filter((name) => name.startsWith("kiln-audio-"))

describe("on a machine without the programs", () => {
  it("speech is broken, and says what to install", async () => {
    const speak = espeakSpeech({ command: "kiln-no-espeak-ng" })
    expect(await run(Effect.flip(speak({ text: "Hello", voice: "en-us" }, call)))).toMatchObject({
      _tag: "ProviderBroken",
      reason: "configuration",
      detail: expect.stringMatching(/^cannot run kiln-no-espeak-ng \((ENOENT|EACCES)\): apt-get install espeak-ng$/),
    })
  })

  it("transcription is broken too, and leaves no file behind", async () => {
    const before = temporaryFiles()
    const transcribe = pocketsphinxTranscription({ command: "kiln-no-pocketsphinx" })
    expect(await run(Effect.flip(transcribe({ audio: audioInput("wav", silence) }, call)))).toMatchObject({
      _tag: "ProviderBroken",
      reason: "configuration",
      detail: expect.stringMatching(
        /^cannot run kiln-no-pocketsphinx \((ENOENT|EACCES)\): apt-get install pocketsphinx pocketsphinx-en-us$/,
      ),
    })
    expect(temporaryFiles()).toEqual(before)
  })

  it("only MP3 is refused without sox", async () => {
    const transcribe = pocketsphinxTranscription({ sox: "kiln-no-sox" })
    const mp3 = Uint8Array.of(0xff, 0xfb, 0x90, 0x00)
    expect(await run(Effect.flip(transcribe({ audio: audioInput("mp3", mp3) }, call)))).toMatchObject({
      _tag: "ProviderFailure",
      errorCode: "provider_rejected",
      retry: false,
      detail: expect.stringMatching(/^cannot run kiln-no-sox \((ENOENT|EACCES)\): apt-get install sox libsox-fmt-mp3$/),
    })
  })
})

describe("an unreadable file is refused", () => {
  const refusalOf = (format: AudioFormat, file: Uint8Array) =>
    run(Effect.flip(pocketsphinxTranscription()({ audio: audioInput(format, file) }, call)))

  it.each(["mp4", "m4a", "webm"] as const)("%s", async (format) => {
    expect(await refusalOf(format, silence)).toMatchObject({
      errorCode: "provider_rejected",
      retry: false,
      detail: `wav or mp3 is understood here, ${format} is not`,
    })
  })

  it("a wav file of samples it does not know", async () => {
    const adpcm = Buffer.from(silence)
    adpcm.writeUInt16LE(2, 20)
    expect(await refusalOf("wav", adpcm)).toMatchObject({
      errorCode: "provider_rejected",
      retry: false,
      detail: "a wav file of format 2 with 16 bits",
    })
  })
})

describe("replies", () => {
  const reply = (text: string, maxOutputTokens = 100) =>
    reflectiveReply(
      { text, instructions: undefined, maxOutputTokens },
      { ...call, signal: AbortSignal.timeout(60_000) },
    )

  it.each([
    ["i think that my dog likes you", "What makes you think that your dog likes I?"],
    ["Well, I want a house.", "What would it mean to you to have a house?"],
    ["I am tired.", "How long have you been tired?"],
    ["When will you come back?", "Why do you ask?"],
    ["The sun is out.", "You say that the sun is out. Please go on."],
    ["", "I did not hear you say anything."],
    [" … ", "I did not hear you say anything."],
  ])("%s", async (said, answered) => expect((await reply(said)).text).toBe(answered))

  it("are counted and cut by words", async () => {
    expect(await reply("I am tired", 6)).toEqual({
      text: "How long have you been tired?",
      outputTokens: 6,
      truncated: false,
    })
    expect(await reply("I am tired", 5)).toEqual({
      text: "How long have you been",
      outputTokens: 5,
      truncated: true,
    })
  })
})

describeWith(["espeak-ng"], "espeak-ng", () => {
  const speak = espeakSpeech()

  it("speaks, into a WAV file whose lengths are right", async () => {
    const { data, mediaType } = await run(speak({ text: sentence, voice: "en-us+f5" }, call))
    expect(mediaType).toBe("audio/wav")
    const file = Buffer.from(data)
    expect([file.readUInt32LE(4), file.readUInt32LE(40)]).toEqual([file.length - 8, file.length - 44])
    const recording = openWav(data)
    if (typeof recording === "string") throw new Error(recording)
    const seconds = recording.length / recording.sampleRate
    expect(seconds).toBeGreaterThan(2)
    expect(seconds).toBeLessThan(8)
    expect(Math.max(...recording.read(0, recording.length))).toBeGreaterThan(0.1)
  })

  it("takes the text as text, whatever it looks like", async () => {
    const lengthOf = async (text: string) => (await run(speak({ text, voice: "en-us" }, call))).data.length
    expect(await lengthOf("--help")).toBeGreaterThan(10_000)
    expect(await lengthOf("$(sleep 60) `sleep 60` <break time='60s'/>")).toBeLessThan(600_000)
  })

  it("a missing voice breaks the provider, because the operator configured it", async () => {
    expect(await run(Effect.flip(speak({ text: "Hello", voice: "nobody" }, call)))).toMatchObject({
      _tag: "ProviderBroken",
      reason: "configuration",
      detail: "espeak-ng ended with exit code 1: Error: The specified espeak-ng voice does not exist.",
    })
  })

  it("ends when the caller is interrupted", async () => {
    const startedAt = performance.now()
    // A text that takes it minutes.
    const speaking = speak({ text: "9".repeat(4_000).replaceAll(/(?<=\d)(?=\d)/g, " "), voice: "en-us" }, call)
    const ended = await run(Effect.exit(Effect.timeout(speaking, 50)))
    expect(ended._tag).toBe("Failure")
    expect(performance.now() - startedAt).toBeLessThan(30_000)
  })
})

describeWith(["pocketsphinx with its English model"], "pocketsphinx", () => {
  const transcribe = pocketsphinxTranscription()

  it("returns no words for silence or for no sound at all", async () => {
    const none = writeWav({ sampleRate: 8_000, channels: 1, bits: 16 }, [new Float32Array(0)])
    for (const file of [silence, none])
      expect(await run(transcribe({ audio: audioInput("wav", file) }, call))).toEqual({ text: "" })
  })

  it.each([
    ["a tone", tone(440, 16_000, 2)],
    ["noise", Float32Array.from({ length: 32_000 }, (_, i) => ((i * 2_654_435_761) % 4_096) / 2_048 - 1)],
    ["the loudest there is", Float32Array.from({ length: 32_000 }, (_, i) => (i % 100 < 50 ? 1 : -1))],
  ])("is not broken by %s", async (_, samples) => {
    const file = writeWav({ sampleRate: 16_000, channels: 1, bits: 16 }, [samples])
    expect(await run(transcribe({ audio: audioInput("wav", file) }, call))).toEqual({ text: expect.any(String) })
  })
})

describeWith(["espeak-ng", "pocketsphinx with its English model"], "what was spoken", () => {
  it("is transcribed, even after a conversion to another format, and leaves no file behind", async () => {
    const before = temporaryFiles()
    const { data } = await run(espeakSpeech()({ text: sentence, voice: "en-us+f5" }, call))
    const recording = openWav(data)
    if (typeof recording === "string") throw new Error(recording)
    const samples = recording.read(0, recording.length)
    const stereo = writeWav({ sampleRate: recording.sampleRate, channels: 2, bits: 24, extensible: true }, [
      samples,
      samples,
    ])
    for (const file of [data, stereo]) {
      const { text } = await run(pocketsphinxTranscription()({ audio: audioInput("wav", file, 4) }, call))
      expect(understood(sentence, text), text).toBeGreaterThanOrEqual(0.8)
    }
    expect(temporaryFiles()).toEqual(before)
  })
})

describeWith(["sox that reads MP3", "pocketsphinx with its English model"], "MP3", () => {
  const speech = readFileSync(join(import.meta.dirname, "../../packages/provider-sandbox/assets/alloy.mp3"))

  it("is transcribed", async () => {
    const { text } = await run(pocketsphinxTranscription()({ audio: audioInput("mp3", speech, 5) }, call))
    expect(text).not.toBe("")
  })

  it("is refused if sox finds no sound in it", async () => {
    const text = new TextEncoder().encode("not an mp3")
    expect(await run(Effect.flip(pocketsphinxTranscription()({ audio: audioInput("mp3", text) }, call)))).toMatchObject(
      { errorCode: "provider_rejected", retry: false },
    )
  })
})
