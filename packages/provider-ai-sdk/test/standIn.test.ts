import { createHash } from "node:crypto"
import { createOpenAI } from "@ai-sdk/openai"
import {
  answer,
  contentPolicyViolation,
  empty,
  hang,
  html,
  insufficientQuota,
  malformed,
  type OpenAiStandIn,
  rateLimited,
  reset,
  startOpenAiStandIn,
  transcriptOf,
  truncated,
} from "@kiln/testing/openai"
import { APICallError, generateImage, generateSpeech, generateText, transcribe } from "ai"
import { describe, expect, it } from "vitest"

// Runs the stand-in against a real client: it understands the SDK's requests, and the SDK accepts its responses.

const withOpenAi = async (
  use: (openai: ReturnType<typeof createOpenAI>, standIn: OpenAiStandIn) => Promise<void>,
): Promise<void> => {
  await using standIn = await startOpenAiStandIn()
  await use(createOpenAI({ baseURL: standIn.url, apiKey: standIn.apiKey }), standIn)
}

const wav = (seconds: number): Uint8Array => {
  const bytes = Buffer.alloc(44 + seconds * 16_000)
  bytes.write("RIFF")
  bytes.writeUInt32LE(bytes.length - 8, 4)
  bytes.write("WAVEfmt ", 8)
  bytes.writeUInt32LE(16, 16)
  bytes.writeUInt16LE(1, 20)
  bytes.writeUInt16LE(1, 22)
  bytes.writeUInt32LE(8000, 24)
  bytes.writeUInt32LE(16_000, 28)
  bytes.writeUInt16LE(2, 32)
  bytes.writeUInt16LE(16, 34)
  bytes.write("data", 36)
  bytes.writeUInt32LE(bytes.length - 44, 40)
  return bytes
}

const once = { maxRetries: 0 }

/** Returns the failure of a call. */
const failure = async (call: PromiseLike<unknown>): Promise<unknown> => {
  try {
    await call
  } catch (error) {
    return error
  }
  return "it did not fail"
}

describe("answers", () => {
  it("transcribes, with the duration if the model reports it", () =>
    withOpenAi(async (openai, standIn) => {
      const audio = wav(2)
      const text = transcriptOf({ sha256: createHash("sha256").update(audio).digest("hex") })
      const whisper = await transcribe({ ...once, model: openai.transcription("whisper-1"), audio })
      expect(whisper).toMatchObject({ text, durationInSeconds: 2, language: "en" })
      expect(whisper.segments).toMatchObject([{ text, startSecond: 0, endSecond: 2 }])
      const newer = await transcribe({ ...once, model: openai.transcription("gpt-4o-transcribe"), audio })
      expect(newer).toMatchObject({ text, durationInSeconds: undefined })
      expect(standIn.callsOf("transcription").map(({ request }) => request)).toMatchObject([
        {
          responseFormat: "verbose_json",
          file: { bytes: audio.length, filename: "audio.wav", contentType: "audio/wav" },
        },
        { responseFormat: "json", file: { bytes: audio.length } },
      ])
    }))

  it.each([
    ["mp3", "audio/mpeg"],
    ["wav", "audio/wav"],
    ["flac", "audio/flac"],
    ["opus", "audio/ogg"],
    ["aac", "audio/aac"],
  ])("speaks %s, which the SDK recognizes", (outputFormat, mediaType) =>
    withOpenAi(async (openai, standIn) => {
      const model = openai.speech("gpt-4o-mini-tts")
      const { audio } = await generateSpeech({ ...once, model, text: "Hello.", voice: "alloy", outputFormat })
      expect(audio.uint8Array.length).toBeGreaterThan(100)
      expect(audio.mediaType).toBe(mediaType)
      expect(standIn.callsOf("speech")).toMatchObject([{ request: { input: "Hello.", voice: "alloy" } }])
    }),
  )

  it("replies through responses and through chat, and reports truncation", () =>
    withOpenAi(async (openai, standIn) => {
      const prompt = Array.from({ length: 40 }, (_, index) => `w${index}`).join(" ")
      for (const model of [openai("gpt-4o-mini"), openai.chat("gpt-4o-mini")]) {
        const whole = await generateText({ ...once, model, instructions: "Be brief.", prompt: "Hello there." })
        expect(whole).toMatchObject({ text: "You said: Hello there.", finishReason: "stop" })
        expect(whole.usage.outputTokens).toBe(4)
        const cut = await generateText({ ...once, model, prompt, maxOutputTokens: 20 })
        expect(cut.finishReason).toBe("length")
        expect(cut.text.split(" ")).toHaveLength(20)
        expect(cut.usage.outputTokens).toBe(20)
      }
      expect(standIn.calls().map(({ endpoint }) => endpoint)).toEqual(["responses", "responses", "chat", "chat"])
      for (const { request } of [...standIn.callsOf("responses"), ...standIn.callsOf("chat")]) {
        expect(request?.messages.at(-1)?.role).toBe("user")
      }
      expect(standIn.callsOf("chat")[0]?.request?.messages[0]).toMatchObject({ role: "system", text: "Be brief." })
      expect(standIn.callsOf("chat")[1]?.request?.maxOutputTokens).toBe(20)
    }))

  it("filters", () =>
    withOpenAi(async (openai, standIn) => {
      const filtered = answer({ text: "", finishReason: "content_filter" as const })
      standIn.script("chat", filtered)
      standIn.script("responses", filtered)
      for (const model of [openai("gpt-4o-mini"), openai.chat("gpt-4o-mini")]) {
        expect((await generateText({ ...once, model, prompt: "x" })).finishReason).toBe("content-filter")
      }
    }))

  it.each(["gpt-image-1", "dall-e-3"])("draws with %s", (id) =>
    withOpenAi(async (openai, standIn) => {
      const quality = id === "dall-e-3" ? "standard" : "low"
      const { image } = await generateImage({
        ...once,
        model: openai.image(id),
        prompt: "a kiln",
        size: "1024x1024",
        providerOptions: { openai: { quality } },
      })
      expect(image.mediaType).toBe("image/png")
      const header = Buffer.from(image.uint8Array)
      expect([header.readUInt32BE(16), header.readUInt32BE(20)]).toEqual([1024, 1024])
      expect(standIn.callsOf("image")[0]?.request).toMatchObject({
        prompt: "a kiln",
        count: 1,
        responseFormat: "b64_json",
      })
      expect(standIn.callsOf("image")[0]?.request?.fields["quality"]).toBe(quality)
    }),
  )

  it("records the headers that a client adds", () =>
    withOpenAi(async (openai, standIn) => {
      const headers = { "Idempotency-Key": "job_1" }
      await generateText({ ...once, model: openai("gpt-4o-mini"), prompt: "x", headers })
      expect(standIn.calls()[0]?.headers).toMatchObject({ authorization: true, idempotencyKey: "job_1" })
    }))
})

describe("failures", () => {
  const speak = (openai: ReturnType<typeof createOpenAI>, abortSignal?: AbortSignal, model = "tts-1") =>
    generateSpeech({
      ...once,
      model: openai.speech(model),
      text: "x",
      voice: "alloy",
      ...(abortSignal === undefined ? {} : { abortSignal }),
    })

  it.each([
    ["a limit on requests", rateLimited(3), 429, "rate_limit_exceeded"],
    ["no money", insufficientQuota, 429, "insufficient_quota"],
    ["an error", contentPolicyViolation, 400, "content_policy_violation"],
  ])("%s has the code where the SDK expects it", (_, behavior, statusCode, code) =>
    withOpenAi(async (openai, standIn) => {
      standIn.script("speech", behavior)
      const error = await failure(speak(openai))
      expect(APICallError.isInstance(error)).toBe(true)
      expect(error).toMatchObject({ statusCode, data: { error: { code } } })
      expect((error as APICallError).responseHeaders?.["retry-after"]).toBe(
        code === "rate_limit_exceeded" ? "3" : undefined,
      )
      expect(standIn.calls()).toHaveLength(1)
    }),
  )

  it("a wrong key, an unknown model", () =>
    withOpenAi(async (openai, standIn) => {
      const stranger = createOpenAI({ baseURL: standIn.url, apiKey: "sk-somebody-elses-key" })
      expect(await failure(speak(stranger))).toMatchObject({
        statusCode: 401,
        data: { error: { code: "invalid_api_key" } },
      })
      const unknown = await failure(speak(openai, undefined, "tts-none"))
      expect(unknown).toMatchObject({ statusCode: 404, data: { error: { code: "model_not_found" } } })
    }))

  it.each([
    ["malformed", malformed()],
    ["of another shape", malformed("otherShape")],
    ["HTML", html],
    ["empty", empty],
    ["broken off", truncated()],
    ["reset", reset("middle")],
  ])("a response that is %s", (_, behavior) =>
    withOpenAi(async (openai, standIn) => {
      standIn.usually("transcription", behavior)
      standIn.usually("image", behavior)
      const model = openai.transcription("whisper-1")
      expect(await failure(transcribe({ ...once, model, audio: wav(1) }))).toBeInstanceOf(Error)
      const image = openai.image("gpt-image-1")
      expect(await failure(generateImage({ ...once, model: image, prompt: "x" }))).toBeInstanceOf(Error)
      expect(standIn.calls()).toHaveLength(2)
    }),
  )

  it("an abort is noticed by the stand-in", () =>
    withOpenAi(async (openai, standIn) => {
      standIn.script("speech", hang)
      const client = new AbortController()
      const failed = failure(speak(openai, client.signal))
      await standIn.untilCalled("speech")
      client.abort()
      expect(await failed).toMatchObject({ name: "AbortError" })
      await standIn.untilEnded("speech")
      expect(standIn.calls()).toMatchObject([{ outcome: "client_gone" }])
    }))
})
