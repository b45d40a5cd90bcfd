import { ApiError, ConnectionLost, createClient, sendUpload } from "@kiln/client"
import { describe, expect, it } from "vitest"
import { refusal, type ScriptedServer, scriptedServer, type Step } from "./support/scriptedServer.ts"

const job = { id: "job_1", object: "job", type: "speech_synthesis", mode: "sandbox", status: "queued" }
const accepted: Step = { status: 202, body: job }
const later = { "retry-after": "0" }

const clientOf = ({ url }: ScriptedServer, options: { maxRetries?: number; timeoutMs?: number } = {}) =>
  createClient({ baseUrl: url, apiKey: "kiln_test_1", ...options })

const problemOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => "no problem",
    (error: unknown) => error,
  )

describe("temporary failures are retried with the same key", () => {
  it.each([
    ["a full queue", { status: 429, headers: later, body: refusal("queue_full") }],
    ["a service that stops", { status: 503, headers: later, body: refusal("service_unavailable") }],
    ["a request that came too slowly", { status: 408, headers: later, body: refusal("request_timeout") }],
    ["a proxy without a service", { status: 502 }],
    ["a connection that broke", "cut"],
  ] as ReadonlyArray<[string, Step]>)("%s", async (_, step) => {
    await using server = await scriptedServer([step, step, accepted])
    expect(await clientOf(server).speech.create({ input: "x" })).toEqual(job)
    const keys = server.received.map(({ headers }) => headers["idempotency-key"])
    expect(keys).toHaveLength(3)
    expect(new Set(keys).size).toBe(1)
    expect(keys[0]).toMatch(/^[0-9a-f]{32}$/)
    expect(server.received.map(({ body }) => body)).toEqual(Array(3).fill('{"input":"x"}'))
  })

  it("as long as it is allowed to, and not longer", async () => {
    await using server = await scriptedServer([{ status: 503, headers: later, body: refusal("service_unavailable") }])
    expect(await problemOf(clientOf(server, { maxRetries: 1 }).speech.create({ input: "x" }))).toMatchObject({
      code: "service_unavailable",
      retryAfterMs: 0,
    })
    expect(server.received).toHaveLength(2)
    await problemOf(clientOf(server, { maxRetries: 0 }).speech.create({ input: "x" }))
    expect(server.received).toHaveLength(3)
  })

  it("after the time the service asked for", async () => {
    await using server = await scriptedServer([
      { status: 429, headers: { "retry-after": "1" }, body: refusal("rate_limited") },
      accepted,
    ])
    const started = performance.now()
    await clientOf(server).speech.create({ input: "x" })
    expect(performance.now() - started).toBeGreaterThanOrEqual(990)
  })
})

it("a redirect is not followed: the answer says what came", async () => {
  await using other = await scriptedServer([accepted])
  for (const status of [301, 302, 303, 307, 308]) {
    await using server = await scriptedServer([{ status, headers: { location: other.url } }])
    const client = clientOf(server)
    expect(await problemOf(client.speech.create({ input: "a secret" }))).toMatchObject({ name: "ApiError", status })
    const upload = { upload_url: `${server.url}/file` }
    const sent = sendUpload(upload, new Uint8Array(10), { format: "wav" })
    expect(await problemOf(sent)).toMatchObject({ name: "ApiError", status })
  }
  expect(other.received).toEqual([])
})

describe("what will not pass is not", () => {
  it.each([
    ["a refusal", { status: 400, body: refusal("invalid_request") }],
    ["a defect", { status: 500, body: refusal("internal_error") }],
    ["a conflict", { status: 409, headers: later, body: refusal("upload_not_ready") }],
    ["what the service says not to repeat", { status: 503, headers: { ...later, "x-should-retry": "false" } }],
  ] as ReadonlyArray<[string, Step]>)("%s", async (_, step) => {
    await using server = await scriptedServer([step])
    expect(await problemOf(clientOf(server).speech.create({ input: "x" }))).toBeInstanceOf(ApiError)
    expect(server.received).toHaveLength(1)
  })

  it("what asks for more patience than there is", async () => {
    await using server = await scriptedServer([{ status: 503, headers: { "retry-after": "1" } }])
    const client = createClient({ baseUrl: server.url, apiKey: "kiln_test_1", maxRetryDelayMs: 999 })
    expect(await problemOf(client.speech.create({ input: "x" }))).toMatchObject({ retryAfterMs: 1_000 })
    expect(server.received).toHaveLength(1)
  })

  it("no answer, in the end", async () => {
    await using server = await scriptedServer(["cut"])
    const problem = await problemOf(clientOf(server, { maxRetries: 0 }).speech.create({ input: "x" }))
    expect(problem).toBeInstanceOf(ConnectionLost)
    expect(problem).toMatchObject({ code: "connection_lost", cause: expect.any(Error) })
  })

  it.each([
    [404, { status: 404, body: { message: "who?" } }],
    [404, { status: 404, body: null }],
    [403, { status: 403, text: "<h1>Forbidden</h1>" }],
    [202, { status: 202, text: "<h1>Log in</h1>" }],
  ] as ReadonlyArray<[number, Step]>)("an answer of somebody else: %i", async (status, step) => {
    await using server = await scriptedServer([step])
    expect(await problemOf(clientOf(server).speech.create({ input: "x" }))).toMatchObject({
      name: "ApiError",
      status,
      code: "unexpected_response",
      requestId: null,
    })
    expect(server.received).toHaveLength(1)
  })
})

describe("time", () => {
  it("a service that says nothing is given up after timeoutMs", async () => {
    await using server = await scriptedServer(["silent", accepted])
    expect(await clientOf(server, { timeoutMs: 100 }).speech.create({ input: "x" })).toEqual(job)
    expect(server.received).toHaveLength(2)
  })

  it("an aborted call ends with the caller's reason, also between two attempts", async () => {
    await using server = await scriptedServer([{ status: 503, headers: { "retry-after": "30" } }])
    const controller = new AbortController()
    const ended = problemOf(clientOf(server).speech.create({ input: "x" }, { signal: controller.signal }))
    await expect.poll(() => server.received.length).toBe(1)
    controller.abort(new Error("enough"))
    expect(await ended).toMatchObject({ message: "enough" })
    const late = problemOf(clientOf(server).speech.create({ input: "x" }, { signal: controller.signal }))
    expect(await late).toMatchObject({ message: "enough" })
    expect(server.received).toHaveLength(1)
  })

  it("a job is waited for over a service that is away for a while", async () => {
    const gone: Step = { status: 503, headers: later, body: refusal("service_unavailable") }
    const done = { id: "job_1", status: "done" }
    await using server = await scriptedServer([
      { status: 200, headers: later, body: { id: "job_1", status: "processing" } },
      gone,
      gone,
      { status: 200, body: done },
    ])
    const client = clientOf(server, { maxRetries: 0 })
    expect(await client.jobs.wait({ id: "job_1", type: "image_generation" })).toEqual(done)
    expect(server.received.map(({ path }) => path)).toEqual(Array(4).fill("/v1/images/jobs/job_1"))
  })

  it("a job that is not there is not waited for", async () => {
    await using server = await scriptedServer([{ status: 404, body: refusal("job_not_found") }])
    const waiting = clientOf(server).jobs.wait({ id: "job_1", type: "transcription" }, { timeoutMs: 5_000 })
    expect(await problemOf(waiting)).toMatchObject({ code: "job_not_found" })
    expect(server.received).toHaveLength(1)
  })
})

describe("a file", () => {
  const send = (server: ScriptedServer, file: Parameters<typeof sendUpload>[1]) =>
    sendUpload({ upload_url: `${server.url}/file?s=1` }, file, { format: "mp3" })
  const bytes = new TextEncoder().encode("ID3 bytes")

  it("is sent again, without a key, until the service has it", async () => {
    await using server = await scriptedServer([
      "cut",
      { status: 409, headers: later, body: refusal("upload_in_progress") },
      { status: 204 },
    ])
    await send(server, bytes)
    expect(server.received.map(({ body, method, path }) => `${method} ${path} ${body}`)).toEqual(
      Array(3).fill("PUT /file?s=1 ID3 bytes"),
    )
    expect(server.received[0]?.headers).toMatchObject({ "content-type": "audio/mpeg" })
    expect(server.received[0]?.headers).not.toHaveProperty("authorization")
  })

  it("that had arrived when its answer was lost has arrived", async () => {
    await using server = await scriptedServer(["cut", { status: 409, body: refusal("upload_already_completed") }])
    expect(await send(server, bytes)).toBeUndefined()
    expect(server.received).toHaveLength(2)
  })

  it.each(["upload_already_completed", "upload_in_progress"])(
    "from elsewhere is not treated as the service's: %s",
    async (code) => {
      await using server = await scriptedServer([{ status: 409, headers: later, body: refusal(code) }])
      expect(await problemOf(send(server, bytes))).toMatchObject({ code })
      expect(server.received).toHaveLength(1)
    },
  )

  it("that is a stream is sent once", async () => {
    await using server = await scriptedServer([{ status: 503, headers: later, body: refusal("service_unavailable") }])
    expect(await problemOf(send(server, new Blob([bytes]).stream()))).toMatchObject({ code: "service_unavailable" })
    expect(server.received.map(({ body }) => body)).toEqual(["ID3 bytes"])
  })
})
