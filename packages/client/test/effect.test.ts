import { readFile } from "node:fs/promises"
import { join } from "node:path"
import { KilnClient, sendUpload, waitForJob } from "@kiln/client/effect"
import { Effect, Layer, Redacted, Result, Stream } from "effect"
import { FetchHttpClient, type HttpClient } from "effect/http"
import { afterAll, beforeAll, describe, expect, expectTypeOf, it } from "vitest"
import { type RunningService, startService } from "./support/startService.ts"

const recording = await readFile(join(import.meta.dirname, "../../../examples/demo/assets/hello.wav"))

let service: RunningService
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service[Symbol.asyncDispose]())

const run = <A, E>(effect: Effect.Effect<A, E, KilnClient | HttpClient.HttpClient>, apiKey = service.key) => {
  const client = KilnClient.layer({ baseUrl: service.url, apiKey: Redacted.make(apiKey) })
  return Effect.runPromise(Effect.provide(effect, Layer.provideMerge(client, FetchHttpClient.layer)))
}
const headers = () => ({ "idempotency-key": crypto.randomUUID() })

describe("the client for Effect", () => {
  it("speaks and draws", async () => {
    const both = Effect.gen(function* () {
      const client = yield* KilnClient
      const speech = yield* client.audio.createSpeech({ headers: headers(), payload: { input: "Hello" } })
      const image = yield* client.images.createImage({ headers: headers(), payload: { prompt: "A kiln" } })
      expect(speech.headers["retry-after"]).toBe(2)
      return yield* Effect.all(
        [
          waitForJob(client.audio.pollAudioJob({ params: { id: speech.body.id } })),
          waitForJob(client.images.pollImageJob({ params: { id: image.body.id } })),
        ],
        {
          concurrency: 2,
        },
      )
    })
    const [spoken, drawn] = await run(both)
    expect(spoken).toMatchObject({ status: "done", output: { audio_url: expect.stringContaining("/v1/files/") } })
    expect(drawn).toMatchObject({ status: "done", output: { format: "png" } })
    expectTypeOf(spoken.status).toEqualTypeOf<"done" | "failed">()
  })

  it.each([
    ["bytes", recording],
    ["a stream", Stream.make(recording.subarray(0, 1_000), recording.subarray(1_000))],
  ] as ReadonlyArray<[string, Parameters<typeof sendUpload>[1]]>)("sends a file: %s", async (_, file) => {
    const transcribed = Effect.gen(function* () {
      const client = yield* KilnClient
      const upload = yield* client.audio.createUpload({ payload: { format: "wav", declared_seconds: 4.1 } })
      yield* sendUpload(upload, file, "wav")
      const again = yield* Effect.result(sendUpload(upload, file, "wav"))
      const job = yield* client.audio.createTranscription({ headers: headers(), payload: { upload_id: upload.id } })
      return { again, done: yield* waitForJob(client.audio.pollAudioJob({ params: { id: job.body.id } })) }
    })
    const { again, done } = await run(transcribed)
    expect(done.output?.transcript).toMatch(/wav/)
    expect(Result.getOrThrow(Result.flip(again))).toMatchObject({
      _tag: "UploadRefused",
      status: 409,
      code: "upload_already_completed",
    })
  })

  it("types every error by its code, with its details", async () => {
    const asked = KilnClient.use((client) =>
      client.audio.createSpeech({ headers: { "idempotency-key": "a b" }, payload: { input: "x" } }),
    )
    const refused = await run(Effect.flip(asked))
    expect(refused).toMatchObject({ error: { code: "idempotency_key_invalid", type: "idempotency_error" } })
    const unknown = await run(Effect.flip(asked), "kiln_test_x")
    expect(unknown).toMatchObject({ error: { code: "invalid_api_key" } })
    type Refused = Extract<typeof refused, { readonly error: unknown }>["error"]
    expectTypeOf<Extract<Refused, { code: "live_not_active" }>["details"]["missing"]>().toEqualTypeOf<
      ReadonlyArray<string>
    >()
    expectTypeOf<"job_not_found">().not.toExtend<Refused["code"]>()
  })

  it("waits no longer than the timeout", async () => {
    const waited = Effect.gen(function* () {
      const client = yield* KilnClient
      const { body } = yield* client.audio.createSpeech({
        headers: headers(),
        payload: { input: "sandbox:delay:30" },
      })
      return yield* Effect.flip(waitForJob(client.audio.pollAudioJob({ params: { id: body.id } }), { timeoutMs: 300 }))
    })
    const started = performance.now()
    expect(await run(waited)).toMatchObject({ _tag: "WaitTimeout", afterMs: 300 })
    expect(performance.now() - started).toBeLessThan(10_000)
  })
})
