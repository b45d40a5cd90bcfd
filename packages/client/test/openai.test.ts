import OpenAI, { APIError, BadRequestError, ConflictError, InternalServerError, RateLimitError } from "openai"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { refusal, type ScriptedServer, scriptedServer, type Step } from "./support/scriptedServer.ts"
import { type RunningService, startService } from "./support/startService.ts"

// Verifies docs/guides/client.md about the official OpenAI client, which has two endpoints of the same shape.

let service: RunningService
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service[Symbol.asyncDispose]())

const clientOf = (url: string, apiKey: string) => new OpenAI({ baseURL: `${url}/v1`, apiKey })
const openai = () => clientOf(service.url, service.key)
const once = () => ({ headers: { "Idempotency-Key": crypto.randomUUID() } })
const image = { prompt: "A red kiln", model: "svc-image" }

const problemOf = (promise: PromiseLike<unknown>): Promise<unknown> =>
  Promise.resolve(promise).then(
    () => "no problem",
    (error: unknown) => error,
  )

describe("the official openai client", () => {
  it("creates an image job and returns the job, whatever its type says", async () => {
    const { data, response, request_id } = await openai().images.generate(image, once()).withResponse()
    expect(response.status).toBe(202)
    expect(response.headers.get("location")).toMatch(/\/v1\/images\/jobs\/job_/)
    expect(request_id).toMatch(/^req_/)
    expect(data).toMatchObject({ object: "job", type: "image_generation", status: "queued" })
    expect(data.data).toBeUndefined()
  })

  it("polls it with its general methods", async () => {
    const { id } = (await openai().images.generate(image, once())) as object as { readonly id: string }
    const job = () => openai().get<{ readonly status: string; readonly output?: object }>(`/images/jobs/${id}`)
    await expect.poll(async () => (await job()).status, { timeout: 10_000 }).toBe("done")
    expect((await job()).output).toMatchObject({ format: "png", image_url: expect.any(String) })
    expect(await openai().delete(`/images/jobs/${id}/data`)).toBeNull()
  })

  it("cannot create speech with its method, which always sends a model, an unknown field here", async () => {
    const speech = { input: "Hello", voice: "nova", model: "tts-1" }
    const problem = await problemOf(openai().audio.speech.create(speech, once()))
    expect(problem).toBeInstanceOf(BadRequestError)
    expect(problem).toMatchObject({ code: "invalid_request", param: "model" })
  })

  it("creates speech without the model, which its types do not allow, and returns the response unread", async () => {
    const speech = { input: "Hello", voice: "nova" } as OpenAI.Audio.SpeechCreateParams
    const response = await openai().audio.speech.create(speech, once())
    expect(response.status).toBe(202)
    expect(await response.json()).toMatchObject({ object: "job", type: "speech_synthesis" })
    const job = await openai().post<{ readonly type: string }>("/audio/speech", {
      body: { input: "Hello", voice: "nova" },
      ...once(),
    })
    expect(job.type).toBe("speech_synthesis")
  })

  it.each(["n", "size", "quality", "response_format", "background", "style"])(
    "is refused other image options: %s",
    async (field) => {
      const problem = await problemOf(openai().images.generate({ ...image, [field]: "auto" }, once()))
      expect(problem).toBeInstanceOf(BadRequestError)
      expect(problem).toMatchObject({ code: "invalid_request", param: field })
    },
  )

  it("sends no idempotency key; its option for one has no effect", async () => {
    for (const options of [{}, { idempotencyKey: "mine" }]) {
      const problem = await problemOf(openai().images.generate(image, options))
      expect(problem).toMatchObject({ status: 400, code: "idempotency_key_missing" })
    }
  })

  it("understands every field of the errors", async () => {
    const problem = await problemOf(openai().images.generate({ ...image, prompt: "" }, once()))
    expect(problem).toBeInstanceOf(APIError)
    expect(problem).toMatchObject({
      status: 400,
      code: "invalid_request",
      type: "invalid_request_error",
      param: "prompt",
      requestID: expect.stringMatching(/^req_/),
      error: { details: { errors: [{ param: "prompt", reason: "empty" }] } },
    })
    const unknown = await problemOf(clientOf(service.url, "kiln_test_x").images.generate(image, once()))
    expect(unknown).toBeInstanceOf(OpenAI.AuthenticationError)
    expect(unknown).toMatchObject({ status: 401, code: "invalid_api_key" })
    expect(await problemOf(openai().get("/jobs/job_x"))).toBeInstanceOf(OpenAI.NotFoundError)
  })
})

describe("its retries", () => {
  const again: Readonly<Record<string, string>> = { "content-type": "application/json", "retry-after-ms": "1" }
  const generate = ({ url }: ScriptedServer) => problemOf(clientOf(url, "kiln_test_1").images.generate(image, once()))

  it.each([
    ["not of a conflict that stays", "upload_already_used", 409, { "x-should-retry": "false" }, 1, ConflictError],
    ["of a conflict that passes", "upload_not_ready", 409, {}, 3, ConflictError],
    ["of a full queue", "queue_full", 429, {}, 3, RateLimitError],
    ["of a defect too", "internal_error", 500, {}, 3, InternalServerError],
    ["not of a refusal", "invalid_request", 400, {}, 1, BadRequestError],
  ] as const)("follow the service's headers: %s", async (_, code, status, headers, requests, type) => {
    const step: Step = { status, headers: { ...again, ...headers }, body: refusal(code) }
    await using server = await scriptedServer([step])
    const problem = await generate(server)
    expect(problem).toBeInstanceOf(type)
    expect(problem).toMatchObject({ code })
    expect(server.received).toHaveLength(requests)
    expect(new Set(server.received.map((request) => request.headers["idempotency-key"])).size).toBe(1)
  })
})
