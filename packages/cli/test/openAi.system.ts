import { runJson, serve, temporaryDirectory, wav } from "@kiln/service-lab"
import OpenAI, { toFile } from "openai"
import { describe, expect, it } from "vitest"

const clientOf = (url: string, apiKey: string) => new OpenAI({ baseURL: `${url}/openai/v1`, apiKey })
const settings = (directory: string) => ({
  KILN_DATA_DIR: directory,
  KILN_OPENAI_API: "on",
  KILN_PROVIDER: "sandbox",
  KILN_FIRST_KEY: "print",
  KILN_RATE_LIMITS: "off",
})

const openLive = async (environment: Readonly<Record<string, string>>) => {
  await runJson(
    [
      "price",
      "set",
      "svc-audio",
      "--currency",
      "usd",
      "--input-audio-second",
      "0.01",
      "--input-character",
      "0.01",
      "--output-token",
      "0.01",
    ],
    environment,
  )
  await runJson(["price", "set", "svc-image", "--currency", "usd", "--image", "0.01"], environment)
  for (const name of ["svc-audio", "svc-image"]) await runJson(["price", "activate", name], environment)
  for (const name of ["ai", "audio", "images"]) await runJson(["switch", "on", name], environment)
  const scopes = ["--scope", "audio.create", "--scope", "images.create"]
  return (await runJson(["key", "create", "--project", "default", "--mode", "live", ...scopes], environment))
    .key as string
}

const problemOf = (promise: PromiseLike<unknown>): Promise<unknown> =>
  Promise.resolve(promise).then(
    () => "no problem",
    (error: unknown) => error,
  )

describe("the official openai client, with another address and key", () => {
  it("speaks, transcribes, draws and lists models in both modes", { timeout: 240_000 }, async () => {
    using directory = temporaryDirectory()
    const environment = settings(directory.path)
    await using kiln = await serve(environment)
    const { first_key, url } = kiln.listening
    const live = await openLive(environment)
    for (const key of [first_key?.key ?? "", live]) {
      const openai = clientOf(url, key)
      const { data: spoken, response } = await openai.audio.speech
        .create({ model: "tts-1", voice: "nova", input: "Hello" })
        .withResponse()
      expect(response.headers.get("content-type")).toBe("audio/mpeg")
      expect(response.headers.get("x-kiln-job-id")).toMatch(/^job_/)
      expect((await spoken.arrayBuffer()).byteLength).toBeGreaterThan(1_000)

      const file = await toFile(wav(2, 8_000), "hello.wav")
      const { text } = await openai.audio.transcriptions.create({ model: "whisper-1", file })
      expect(text).toMatch(/wav/i)
      const plain = await openai.audio.transcriptions.create({ file, model: "whisper-1", response_format: "text" })
      expect(plain.trim()).toBe(text)

      const drawn = await openai.images.generate({ model: "gpt-image-1", prompt: "A kiln", n: 2 })
      expect(drawn.data).toHaveLength(2)
      expect(
        Buffer.from(drawn.data?.[0]?.b64_json ?? "", "base64")
          .subarray(1, 4)
          .toString(),
      ).toBe("PNG")
      const linked = await openai.images.generate({ model: "dall-e-3", prompt: "A kiln" })
      expect((await fetch(linked.data?.[0]?.url ?? "")).headers.get("content-type")).toBe("image/png")

      const ids = (await openai.models.list()).data.map(({ id }) => id)
      expect(ids).toContain("tts-1")
      expect((await openai.models.retrieve("whisper-1")).id).toBe("whisper-1")
    }
  })

  it("is refused what cannot be served, by name", { timeout: 120_000 }, async () => {
    using directory = temporaryDirectory()
    await using kiln = await serve(settings(directory.path))
    const openai = clientOf(kiln.listening.url, kiln.listening.first_key?.key ?? "")
    const speech = { model: "tts-1", voice: "nova", input: "Hello" }
    const notAudio = await toFile(Buffer.alloc(99, 65), "a.flac")
    const audio = await toFile(wav(1), "a.wav")
    const refused: ReadonlyArray<readonly [() => PromiseLike<unknown>, string, RegExp]> = [
      [() => openai.audio.speech.create({ ...speech, response_format: "opus" }), "response_format", /"mp3"/],
      [() => openai.audio.speech.create({ ...speech, speed: 2 }), "speed", /must be 1/],
      [() => openai.audio.speech.create({ ...speech, instructions: "Whisper" }), "instructions", /not supported/],
      [() => openai.audio.speech.create({ ...speech, voice: "nobody" }), "voice", /alloy/],
      [() => openai.audio.speech.create({ ...speech, model: "gpt-9" }), "model", /tts-1/],
      [() => openai.images.generate({ prompt: "A kiln", n: 9 }), "n", /1 to 4/],
      [() => openai.images.generate({ prompt: "A kiln", size: "256x256" }), "size", /1024x1024/],
      [() => openai.images.generate({ prompt: "A kiln", stream: true }), "stream", /not supported/],
      [
        () => openai.audio.transcriptions.create({ model: "whisper-1", file: audio, language: "en" }),
        "language",
        /leave it out/,
      ],
      [() => openai.audio.transcriptions.create({ model: "whisper-1", file: notAudio }), "file", /mp3/],
      [() => openai.post("/audio/speech", { body: { ...speech, vioce: "x" } }), "vioce", /did you mean "voice"/],
    ]
    for (const [call, param, message] of refused)
      expect(await problemOf(call())).toMatchObject({ status: 400, param, message: expect.stringMatching(message) })
    const failing = { ...speech, input: "sandbox:fail:provider_unavailable" }
    expect(await problemOf(openai.audio.speech.create(failing))).toMatchObject({ code: "provider_unavailable" })
  })
})
