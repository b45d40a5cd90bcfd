import { readFile } from "node:fs/promises"
import { join } from "node:path"
import { ApiError, createClient, sendUpload, WaitTimeout } from "@kiln/client"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { type RunningService, startService } from "./support/startService.ts"

const recording = await readFile(join(import.meta.dirname, "../../../examples/demo/assets/hello.wav"))
const about = { format: "wav", declared_seconds: 4.1 } as const

let service: RunningService
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service[Symbol.asyncDispose]())

const client = () => createClient({ baseUrl: `${service.url}/`, apiKey: service.key })

const problemOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => "no problem",
    (error: unknown) => error,
  )

// Each waits 2 s, as the service recommends, so they wait together.
describe.concurrent("every kind of job, from file or text to result", () => {
  it("speaks", async () => {
    const job = await client().speech.create({ input: "Hello", voice: "nova" })
    expect(job).toEqual({ id: job.id, object: "job", type: "speech_synthesis", mode: "sandbox", status: "queued" })
    const done = await client().jobs.wait(job)
    expect(Object.keys(done.output ?? {})).toEqual(["audio_url"])
    const file = await fetch(done.output?.audio_url ?? "")
    expect(file.headers.get("content-type")).toBe("audio/mpeg")
    expect((await file.arrayBuffer()).byteLength).toBeGreaterThan(1_000)
    expect(done).toMatchObject({ status: "done", billing: { status: "not_charged" }, error_code: null })
  })

  it("draws", async () => {
    const job = await client().images.create({ prompt: "A red kiln" })
    const done = await client().jobs.wait(job)
    expect(done).toMatchObject({ id: job.id, status: "done", output: { format: "png", size: "1024x1024" } })
    expect((await fetch(done.output?.image_url ?? "")).headers.get("content-type")).toBe("image/png")
  })

  const bodies = {
    bytes: () => recording,
    blob: () => new Blob([recording]),
    buffer: () => recording.buffer.slice(recording.byteOffset, recording.byteOffset + recording.byteLength),
    stream: () => new Blob([recording]).stream(),
  }
  it.each(Object.entries(bodies))("transcribes a file that is given as %s", async (_, file) => {
    const job = await client().transcriptions.createFromFile(file(), about)
    const done = await client().jobs.wait(job)
    expect(Object.keys(done.output ?? {})).toEqual(["transcript"])
    expect(done.output?.transcript).toMatch(/wav.*4/)
  })

  it("answers a voice turn", async () => {
    const turn = { ...about, max_output_tokens: 50, instructions: "Be brief." }
    const job = await client().voiceTurns.createFromFile(recording, turn)
    const done = await client().jobs.wait(job)
    expect(Object.keys(done.output ?? {}).sort()).toEqual(["audio_url", "text"])
  })

  it("also uploads in three steps, the second of which needs no key", async () => {
    const upload = await client().uploads.create(about)
    expect(upload).toMatchObject({ method: "PUT", max_bytes: 26_214_400 })
    await sendUpload(upload, recording, { format: "wav" })
    const job = await client().transcriptions.create({ upload_id: upload.id })
    expect((await client().jobs.wait(job)).status).toBe("done")
  })
})

describe.concurrent("jobs", () => {
  it("are found by id and type", async () => {
    const { id } = await client().images.create({ prompt: "A blue kiln" })
    const state = await client().jobs.get({ id, type: "image_generation" })
    expect(state.id).toBe(id)
  })

  it("that failed have an error code, and polling returns them normally", async () => {
    const job = await client().speech.create({ input: "sandbox:fail:content_rejected" })
    expect(await client().jobs.wait(job)).toMatchObject({ status: "failed", error_code: "content_rejected" })
  })

  it("lose their data permanently", async () => {
    for (const job of [
      await client().speech.create({ input: "Forget me" }),
      await client().images.create({ prompt: "Forget me" }),
    ]) {
      const done = await client().jobs.wait(job)
      expect(done.output).toBeDefined()
      await client().jobs.eraseData(job)
      const state = await client().jobs.get(job)
      expect(state).toMatchObject({ status: "done", warning_code: "data_deleted" })
      expect(state.output).toBeUndefined()
    }
  })

  it("are one job per idempotency key, and one per call without a key", async () => {
    const options = { idempotencyKey: "order-17" }
    const [first, second] = await Promise.all([
      client().speech.create({ input: "Once" }, options),
      client().speech.create({ input: "Once" }, options),
    ])
    expect(second).toEqual(first)
    const [third, fourth] = await Promise.all([
      client().speech.create({ input: "Twice" }),
      client().speech.create({ input: "Twice" }),
    ])
    expect(third.id).not.toBe(fourth.id)
  })

  it("are awaited no longer than the timeout", async () => {
    const job = await client().speech.create({ input: "sandbox:delay:30" })
    const problem = await problemOf(client().jobs.wait(job, { timeoutMs: 300 }))
    expect(problem).toBeInstanceOf(WaitTimeout)
    expect(problem).toMatchObject({ code: "wait_timeout", jobId: job.id })
    const controller = new AbortController()
    const waiting = problemOf(client().jobs.wait(job, { signal: controller.signal }))
    controller.abort(new Error("closed the page"))
    expect(await waiting).toMatchObject({ message: "closed the page" })
  })
})

describe("refusals", () => {
  it("name every invalid field", async () => {
    const problem = await problemOf(client().speech.create({ input: "", voice: "nobody" }))
    expect(problem).toBeInstanceOf(ApiError)
    expect(problem).toMatchObject({
      status: 400,
      code: "invalid_request",
      type: "invalid_request_error",
      param: "input",
      requestId: expect.stringMatching(/^req_/),
      fieldProblems: [
        { param: "input", reason: "empty" },
        { param: "voice", reason: "enum", allowed: expect.arrayContaining(["nova"]) },
      ],
    })
  })

  it.each([
    ["no such job", () => client().jobs.get({ id: "job_x/../y", type: "transcription" }), 404, "job_not_found"],
    [
      "an invalid key",
      () => createClient({ baseUrl: service.url, apiKey: "kiln_test_x" }).speech.create({ input: "x" }),
      401,
      "invalid_api_key",
    ],
    ["an idempotency key with a space", () => createWithKey("a b"), 400, "idempotency_key_invalid"],
    ["an invalid upload", () => client().transcriptions.create({ upload_id: "upl_x" }), 400, "upload_not_found"],
    [
      "a file of another format",
      () => client().transcriptions.createFromFile(recording, { ...about, format: "mp3" }),
      422,
      "audio_format_mismatch",
    ],
  ])("of %s", async (_, call, status, code) => {
    const problem = await problemOf(call())
    expect(problem).toBeInstanceOf(ApiError)
    expect(problem).toMatchObject({ status, code, fieldProblems: [] })
  })

  const createWithKey = (idempotencyKey: string) => client().speech.create({ input: "x" }, { idempotencyKey })

  it("never show the key", async () => {
    const problem = await problemOf(
      createClient({ baseUrl: service.url, apiKey: "kiln_test_secret" }).speech.create({ input: "x" }),
    )
    const { inspect } = await import("node:util")
    expect(inspect(problem, { depth: 10 })).not.toContain("kiln_test_secret")
  })
})
