import { readFile } from "node:fs/promises"
import { join } from "node:path"
import { createKilnProvider } from "@kiln/client/ai-sdk"
import { createProviderRegistry, generateImage, generateSpeech, transcribe } from "ai"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { refusal, scriptedServer } from "./support/scriptedServer.ts"
import { type RunningService, startService } from "./support/startService.ts"

// Verifies docs/guides/client.md about the AI SDK.

const recording = await readFile(join(import.meta.dirname, "../../../examples/demo/assets/hello.wav"))

let service: RunningService
beforeAll(async () => {
  Object.assign(globalThis, { AI_SDK_LOG_WARNINGS: false })
  service = await startService({ KILN_RATE_LIMITS: "off" })
})
afterAll(() => service[Symbol.asyncDispose]())

const kiln = () => createKilnProvider({ baseUrl: service.url, apiKey: service.key })

describe("the AI SDK", () => {
  it("generates speech", async () => {
    const { audio, providerMetadata, warnings } = await generateSpeech({
      model: kiln().speech(),
      text: "Hello",
      voice: "nova",
      outputFormat: "mp3",
    })
    expect(audio.mediaType).toMatch(/^audio\/mp(3|eg)$/)
    expect(audio.uint8Array.length).toBeGreaterThan(1_000)
    expect(warnings).toEqual([])
    expect(providerMetadata).toEqual({ kiln: { jobId: expect.stringMatching(/^job_/) } })
  })

  it("transcribes bytes and base64", async () => {
    for (const audio of [recording, recording.toString("base64")])
      expect((await transcribe({ model: kiln().transcription(), audio })).text).toMatch(/wav.*4/)
  })

  it("generates images, each a job", async () => {
    const { images, providerMetadata } = await generateImage({
      model: kiln().image(),
      prompt: "A red kiln",
      n: 3,
      providerOptions: { kiln: { idempotencyKey: "images" } },
    })
    expect(images.map(({ mediaType }) => mediaType)).toEqual(["image/png", "image/png", "image/png"])
    const jobs = providerMetadata["kiln"]?.images ?? []
    expect(new Set(jobs.map((job) => JSON.stringify(job))).size).toBe(3)
  })

  it("finds the job of the same call again", async () => {
    const providerOptions = { kiln: { idempotencyKey: "again" } }
    const speak = () => generateSpeech({ model: kiln().speech(), text: "Once", providerOptions })
    const hear = () => transcribe({ model: kiln().transcription(), audio: recording, providerOptions })
    for (const call of [speak, hear]) expect((await call()).providerMetadata).toEqual((await call()).providerMetadata)
  })

  it("warns of each setting that is not served", async () => {
    const { warnings } = await generateSpeech({
      model: kiln().speech(),
      text: "Hello",
      speed: 2,
      instructions: "Slowly.",
      outputFormat: "wav",
    })
    expect(warnings.map((warning) => "feature" in warning && warning.feature)).toEqual([
      "instructions",
      "speed",
      "outputFormat",
    ])
    const { warnings: ofImage } = await generateImage({
      model: kiln().image(),
      prompt: "A kiln",
      size: "512x512",
      seed: 7,
    })
    expect(ofImage.map((warning) => "feature" in warning && warning.feature)).toEqual(["seed", "size"])
  })

  it("names models by a registry, and refuses others", () => {
    const registry = createProviderRegistry({ kiln: kiln() })
    expect(registry.speechModel("kiln:speech")).toMatchObject({ provider: "kiln", modelId: "speech" })
    expect(registry.imageModel("kiln:svc-image")).toMatchObject({ modelId: "svc-image" })
    expect(() => kiln().speech("tts-1")).toThrow('kiln has no model "tts-1"; this one is "speech"')
    expect(() => registry.languageModel("kiln:gpt")).toThrow("kiln has no language models")
  })

  it("ends with the call's signal, and with the error of a failed job", async () => {
    const abortSignal = AbortSignal.timeout(50)
    const model = kiln().speech()
    await expect(generateSpeech({ model, text: "sandbox:delay:30", abortSignal })).rejects.toMatchObject({
      name: "TimeoutError",
    })
    const failed = generateSpeech({ model, text: "sandbox:fail:content_rejected" })
    await expect(failed).rejects.toMatchObject({ name: "JobFailed", code: "content_rejected" })
    const misspelled = generateSpeech({ model, text: "x", providerOptions: { kiln: { idempotency: "1" } } })
    await expect(misspelled).rejects.toThrow('unknown option "idempotency" in providerOptions.kiln')
  })

  it("does not repeat what the client has repeated", async () => {
    const body = refusal("service_unavailable")
    await using server = await scriptedServer([{ status: 503, headers: { "retry-after": "0" }, body }])
    const { speech } = createKilnProvider({ baseUrl: server.url, apiKey: "kiln_test_1", maxRetries: 1 })
    await expect(generateSpeech({ model: speech(), text: "x" })).rejects.toMatchObject({ code: "service_unavailable" })
    expect(server.received).toHaveLength(2)
    expect(new Set(server.received.map(({ headers }) => headers["idempotency-key"])).size).toBe(1)
  })
})
