import { setTimeout as sleep } from "node:timers/promises"
import { KeyDirectory } from "@kiln/core/ports"
import { Effect } from "effect"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { startServer, type TestServer } from "../server/startServer.ts"
import { type Answer, callerOf, form, until, wav } from "./support.ts"

// Verifies docs/guides/openai.md over HTTP.

let server: TestServer
let key: string
let call: ReturnType<typeof callerOf>
beforeAll(async () => {
  server = await startServer({ worker: true, http: { openAi: { waitMs: 20_000 } } })
  key = (await server.createKey()).secret
  call = callerOf(server, key)
})
afterAll(() => server.stop())

const speech = { model: "tts-1", voice: "nova", input: "Hello" }
const errorOf = ({ json, status }: Answer) => ({ status, ...json.error })
const jobOf = ({ headers }: Answer) => headers.get("x-kiln-job-id")

describe("speech", () => {
  it("is the file of a job", async () => {
    const spoken = await call("audio/speech", speech)
    expect(spoken.status).toBe(200)
    expect(spoken.headers.get("content-type")).toBe("audio/mpeg")
    expect(jobOf(spoken)).toMatch(/^job_/)
    expect(spoken.headers.get("x-ratelimit-limit-requests")).toMatch(/^\d+$/)
    expect(spoken.headers.get("x-ratelimit-remaining-requests")).toMatch(/^\d+$/)
    expect(spoken.headers.get("x-ratelimit-reset-requests")).toMatch(/^\d+s$/)
  })

  it.each([
    ["model", { model: "gpt-9" }, /tts-1/],
    ["voice", { voice: "nobody" }, /alloy/],
    ["stream", { stream: true }, /not supported/],
    ["stream_format", { stream_format: "sse" }, /not supported/],
    ["response_format", { response_format: "opus" }, /mp3/],
    ["speed", { speed: 2 }, /must be 1/],
    ["instructions", { instructions: "Whisper" }, /not supported: leave it out/],
    ["input", { input: "" }, /empty/],
    ["vioce", { vioce: "nova" }, /did you mean \\"voice\\"/],
  ])("with another %s is refused by name", async (param, change, message) => {
    const refused = errorOf(await call("audio/speech", { ...speech, ...change }))
    expect(refused).toMatchObject({ status: 400, type: "invalid_request_error", param })
    expect(JSON.stringify(refused)).toMatch(message)
  })

  it("of a failed job is an error that clients do not retry", async () => {
    const failed = await call("audio/speech", { ...speech, input: "sandbox:fail:content_rejected" })
    expect(errorOf(failed)).toMatchObject({ status: 400, code: "content_rejected", details: { job_id: jobOf(failed) } })
    expect(failed.headers.get("x-should-retry")).toBe("false")
  })

  it("repeats the first result under one Idempotency-Key, and is another job without", async () => {
    const once = { "idempotency-key": crypto.randomUUID() }
    const first = await call("audio/speech", speech, once)
    const second = await call("audio/speech", speech, once)
    expect([second.status, jobOf(second), second.text]).toEqual([200, jobOf(first), first.text])
    expect(jobOf(await call("audio/speech", speech))).not.toBe(jobOf(await call("audio/speech", speech)))
    expect(errorOf(await call("audio/speech", { ...speech, input: "Bye" }, once))).toMatchObject({
      status: 422,
      code: "idempotency_key_reused",
    })
    expect(errorOf(await call("audio/speech", speech, { "idempotency-key": " " }))).toMatchObject({ status: 400 })
  })

  it("joins the job that a counted retry repeats", async () => {
    const asked = { ...speech, input: "Once" }
    const first = await call("audio/speech", asked, { "x-stainless-retry-count": "0" })
    const retried = await call("audio/speech", asked, { "x-stainless-retry-count": "1" })
    expect([retried.status, jobOf(retried)]).toEqual([200, jobOf(first)])
  })
})

describe("keys", () => {
  it.each(["", "kiln_test_wrong", "sk-proj-x"])("that are wrong get 401 in OpenAI's shape: %j", async (wrong) => {
    for (const refused of [
      await callerOf(server, wrong)("audio/speech", speech),
      await callerOf(server, wrong)("audio/transcriptions", form(["model", "whisper-1"], ["file", wav()])),
      await callerOf(server, wrong)("models"),
    ]) {
      expect(errorOf(refused)).toMatchObject({
        status: 401,
        type: "authentication_error",
        code: expect.stringMatching(/api_key$/),
        message: expect.any(String),
        param: null,
      })
    }
  })

  it("without the scope get 403", async () => {
    const { secret } = await server.createKey({ scopes: ["images.create"] })
    expect(errorOf(await callerOf(server, secret)("audio/speech", speech))).toMatchObject({ status: 403 })
    expect((await callerOf(server, secret)("models")).status).toBe(200)
  })
})

describe("models", () => {
  it("are those that requests accept", async () => {
    const { data, object } = (await call("models")).json
    expect(object).toBe("list")
    const ids = data.map(({ id }: { readonly id: string }) => id)
    for (const id of [
      "tts-1",
      "tts-1-hd",
      "gpt-4o-mini-tts",
      "whisper-1",
      "gpt-4o-transcribe",
      "dall-e-3",
      "gpt-image-1",
    ])
      expect(ids).toContain(id)
    for (const id of ids) expect((await call(`models/${id}`)).json).toMatchObject({ id, object: "model" })
    expect(errorOf(await call("models/gpt-9"))).toMatchObject({ status: 404, message: expect.stringMatching(/tts-1/) })
  })

  it("have the names of the provider's models too", async () => {
    const models = { image_generation: "studio/kiln-1", speech_synthesis: null, transcription: "whisper-1" }
    await using named = await startServer({ worker: true, http: { openAi: { waitMs: 20_000, models } } })
    const ask = callerOf(named, (await named.createKey()).secret)
    const ids: ReadonlyArray<string> = (await ask("models")).json.data.map(({ id }: { readonly id: string }) => id)
    expect(ids.filter((id) => id === "studio/kiln-1" || id === "whisper-1")).toEqual(["whisper-1", "studio/kiln-1"])
    expect((await ask("models/studio%2Fkiln-1")).json).toMatchObject({ id: "studio/kiln-1" })
    expect((await ask("images/generations", { model: "studio/kiln-1", prompt: "A kiln" })).status).toBe(200)
    expect(errorOf(await ask("audio/speech", { ...speech, model: "studio/kiln-1" }))).toMatchObject({ param: "model" })
    expect(errorOf(await call("images/generations", { model: "studio/kiln-1", prompt: "A kiln" })).status).toBe(400)
  })
})

describe("images", () => {
  it("are a job each", async () => {
    const drawn = await call("images/generations", { model: "gpt-image-1", prompt: "A kiln", n: 2 })
    expect(drawn.json.data).toHaveLength(2)
    expect(jobOf(drawn)?.split(", ")).toHaveLength(2)
    expect(Buffer.from(drawn.json.data[1].b64_json, "base64").subarray(1, 4).toString()).toBe("PNG")
    const linked = await call("images/generations", { model: "dall-e-3", prompt: "A kiln" })
    expect((await fetch(linked.json.data[0].url)).headers.get("content-type")).toBe("image/png")
  })

  it.each([
    ["n", { n: 5 }],
    ["n", { n: "2" }],
    ["stream", { stream: true }],
    ["size", { size: "1x1" }],
    ["style", { style: "natural" }],
    ["model", { model: "tts-1" }],
    ["prompt", { prompt: "" }],
  ])("are refused by name: %s", async (param, change) => {
    const refused = await call("images/generations", { model: "dall-e-3", prompt: "A kiln", ...change })
    expect(errorOf(refused)).toMatchObject({ status: 400, param })
  })
})

describe("a request that waits", () => {
  const slow = { ...speech, input: "sandbox:delay:60" }

  it("gets 504 with its job after the wait, and its retry joins it", async () => {
    await using short = await startServer({ worker: true, http: { openAi: { waitMs: 200 } } })
    const ask = callerOf(short, (await short.createKey()).secret)
    const late = await ask("audio/speech", slow)
    const job_id = jobOf(late)
    expect(errorOf(late)).toMatchObject({ status: 504, code: "wait_timeout", type: "api_error", details: { job_id } })
    expect(jobOf(await ask("audio/speech", slow, { "x-stainless-retry-count": "1" }))).toBe(job_id)
    expect(jobOf(await ask("audio/speech", slow))).not.toBe(job_id)
  })

  it("is answered when the process stops, with its job and a hint to repeat", async () => {
    const stopping = await startServer({ worker: true, http: { openAi: { waitMs: 60_000 } } })
    const { secret } = await stopping.createKey()
    const waiting = callerOf(stopping, secret)("audio/speech", slow)
    const isRunning = async () => {
      const page = await fetch(`${stopping.url}/v1/audio/speech`, {
        method: "POST",
        headers: {
          authorization: `Bearer ${secret}`,
          "content-type": "application/json",
          "idempotency-key": crypto.randomUUID(),
        },
        body: JSON.stringify({ input: "Hi" }),
      })
      return page.status === 202
    }
    await until(isRunning)
    const stopped = stopping.stop()
    const answer = await waiting
    expect(errorOf(answer)).toMatchObject({ status: 503, code: "service_unavailable" })
    expect(jobOf(answer)).toMatch(/^job_/)
    expect(answer.headers.get("retry-after")).toBe("1")
    await stopped
  })

  it("is refused at the end of a wait in which its key was revoked", async () => {
    await using service = await startServer({ worker: true, http: { openAi: { waitMs: 20_000 } } })
    const { id, secret } = await service.createKey()
    const ask = callerOf(service, secret)
    const late = "sandbox:delay:4"
    const waiting = [ask("audio/speech", { ...speech, input: late }), ask("images/generations", { prompt: late })]
    // Requests on connections of their own have been admitted by then.
    await sleep(500)
    await service.run(Effect.flatMap(KeyDirectory, (keys) => keys.revokeKey(id)))
    for (const answer of await Promise.all(waiting))
      expect(errorOf(answer)).toMatchObject({ status: 401, code: "invalid_api_key" })
  })

  it("tells a client that asks too often when to repeat", async () => {
    const create = { perMinute: 60, burst: 1 }
    const { defaultHttpSettings } = await import("../../src/index.ts")
    const rateLimits = { ...defaultHttpSettings.rateLimits, create }
    await using limited = await startServer({ worker: true, http: { openAi: { waitMs: 20_000 }, rateLimits } })
    const ask = callerOf(limited, (await limited.createKey()).secret)
    const answers = [await ask("audio/speech", speech), await ask("audio/speech", speech)]
    const refused = answers.find(({ status }) => status === 429) ?? (await ask("audio/speech", speech))
    expect(errorOf(refused)).toMatchObject({ status: 429, type: "rate_limit_error", code: "rate_limited" })
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0)
    expect(refused.headers.get("x-ratelimit-remaining-requests")).toBe("0")
  })

  it("does not exist unless it is switched on", async () => {
    await using off = await startServer()
    const ask = callerOf(off, (await off.createKey()).secret)
    expect((await ask("models")).status).toBe(404)
  })
})
