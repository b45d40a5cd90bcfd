import { createReadStream } from "node:fs"
import { readFile } from "node:fs/promises"
import { join } from "node:path"
import { Readable } from "node:stream"
import { createClient, JobFailed, type RunProgress } from "@kiln/client"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { type RunningService, startService } from "./support/startService.ts"

const assets = join(import.meta.dirname, "../../../examples/demo/assets")
const recording = new Uint8Array(await readFile(join(assets, "hello.wav")))

let service: RunningService
beforeAll(async () => {
  service = await startService({ KILN_RATE_LIMITS: "off" })
})
afterAll(() => service[Symbol.asyncDispose]())

/** A client, and the requests that it has sent. */
const watched = (lose: (request: string) => boolean = () => false) => {
  const requests: Array<string> = []
  const fetch: typeof globalThis.fetch = async (input, init) => {
    const request = `${init?.method} ${new URL(input as string).pathname.replace(/(upl|job|fil)_\w+/, "$1")}`
    requests.push(request)
    const response = await globalThis.fetch(input, init)
    if (lose(request)) throw new TypeError("the process died")
    return response
  }
  return { requests, client: createClient({ baseUrl: service.url, apiKey: service.key, fetch, maxRetries: 0 }) }
}

const problemOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => "no problem",
    (error: unknown) => error,
  )

describe("one call from request to result", () => {
  it("transcribes a file by its own format and length", async () => {
    const { client, requests } = watched()
    const steps: Array<RunProgress> = []
    const { state, transcript } = await client.transcribe(recording, {}, { onProgress: (step) => steps.push(step) })
    expect(transcript).toMatch(/wav.*4/)
    expect(state).toMatchObject({ status: "done", warning_code: null, output: { transcript } })
    // The service holds the poll, so there is one.
    expect(requests).toEqual([
      "POST /v1/audio/uploads",
      "PUT /v1/audio/uploads/upl/file",
      "POST /v1/audio/transcriptions",
      "GET /v1/jobs/job",
    ])
    expect(steps.map(({ status, step }) => [step, status])).toEqual([
      ["uploading", undefined],
      ["waiting", undefined],
      ["waiting", "done"],
    ])
    expect(steps.slice(1).map(({ jobId }) => jobId)).toEqual([state.id, state.id])
  })

  it("refuses what is no file, before it sends anything", async () => {
    const { client, requests } = watched()
    for (const file of ["hello.wav", undefined, null, new FormData(), { data: recording }])
      for (const about of [{}, { format: "wav", declared_seconds: 4 } as const])
        expect(await problemOf(client.transcribe(file as never, about))).toMatchObject({
          message: "the file must be a Blob, bytes or a stream",
        })
    expect(requests).toEqual([])
  })

  it.each(["uploads", "file", "transcriptions"])("ends after timeoutMs where %s has no answer", async (last) => {
    const fetch: typeof globalThis.fetch = async (input, init) => {
      if (!new URL(input as string).pathname.endsWith(last)) return globalThis.fetch(input, init)
      await new Promise((resolve) => init?.signal?.addEventListener("abort", resolve))
      init?.signal?.throwIfAborted()
      return new Response()
    }
    const client = createClient({ baseUrl: service.url, apiKey: service.key, fetch })
    const problem = await problemOf(client.transcribe(recording, {}, { timeoutMs: 200 }))
    expect(problem).toMatchObject({ code: "connection_lost", cause: { name: "TimeoutError" } })
  })

  it("ends after timeoutMs, or when it is aborted, where a stream stalls", async () => {
    const { client, requests } = watched()
    const stalled = () => new ReadableStream<Uint8Array>({ start: (stream) => stream.enqueue(recording.slice(0, 20)) })
    const problem = { code: "connection_lost", cause: { name: "TimeoutError" } }
    expect(await problemOf(client.transcribe(stalled(), {}, { timeoutMs: 200 }))).toMatchObject(problem)
    const ofNode = new Readable({ read: () => undefined })
    expect(await problemOf(client.transcribe(ofNode, {}, { timeoutMs: 200 }))).toMatchObject(problem)
    const aborted = client.transcriptions.createFromFile(stalled(), {}, { signal: AbortSignal.timeout(200) })
    expect(await problemOf(aborted)).toMatchObject({ name: "TimeoutError" })
    expect(requests).toEqual([])
  })

  it("ends after timeoutMs where the file of the result does not arrive", async () => {
    let downloads = 0
    const fetch: typeof globalThis.fetch = async (input, init) => {
      if (init?.method !== "GET" || new URL(input as string).pathname.includes("/jobs/"))
        return globalThis.fetch(input, init)
      downloads += 1
      await new Promise((resolve) => init.signal?.addEventListener("abort", resolve))
      throw init.signal?.reason
    }
    const client = createClient({ baseUrl: service.url, apiKey: service.key, fetch })
    const problem = await problemOf(client.speak({ input: "Hello", voice: "nova" }, { timeoutMs: 1_500 }))
    expect(problem).toMatchObject({ code: "connection_lost", cause: { name: "TimeoutError" } })
    expect(downloads).toBe(1)
  })

  it("reads a stream and a Blob as well", async () => {
    const { client } = watched()
    const blob = new Blob([recording])
    const ofNode = createReadStream(join(assets, "hello.wav"))
    const files = [blob, blob.stream(), ofNode, Readable.toWeb(Readable.from([recording]))]
    for (const file of files) expect((await client.transcribe(file)).transcript).toMatch(/wav.*4/)
    const announced = { format: "wav", declared_seconds: 4 } as const
    const sent = Readable.from([recording])
    expect((await client.transcribe(sent, announced)).transcript).toMatch(/wav.*4/)
    expect(sent.destroyed).toBe(true)
  })

  it("speaks, draws and answers, with the files", async () => {
    const { client } = watched()
    const { audio, state } = await client.speak({ input: "Hello", voice: "nova" })
    expect([audio.type, audio.size > 1_000, state.billing.status]).toEqual(["audio/mpeg", true, "not_charged"])
    const { image } = await client.image({ prompt: "A red kiln" })
    expect(image.type).toBe("image/png")
    const turn = await client.turn(recording, { max_output_tokens: 50 })
    expect([typeof turn.text, turn.audio.type]).toEqual(["string", "audio/mpeg"])
  })

  it("rejects for a failed job, with its code", async () => {
    const { client } = watched()
    const problem = await problemOf(client.speak({ input: "sandbox:fail:content_rejected" }))
    expect(problem).toBeInstanceOf(JobFailed)
    expect(problem).toMatchObject({ code: "content_rejected", jobId: expect.stringMatching(/^job_/) })
    expect(String(problem)).toContain("content_rejected")
  })

  it("rejects for a job whose data is deleted", async () => {
    const { client } = watched()
    const run = () => client.speech.run({ input: "Hello" }, { idempotencyKey: "deleted" })
    const { id } = await run()
    await client.jobs.eraseData({ id, type: "speech_synthesis" })
    expect(await problemOf(run())).toMatchObject({ name: "JobFailed", code: "data_deleted", jobId: id })
  })

  it("sends nothing that is not audio, and says what to do", async () => {
    const { client, requests } = watched()
    const text = new TextEncoder().encode("this is a text")
    await expect(client.transcribe(text)).rejects.toThrow("not mp3, mp4, m4a, wav or webm audio")
    await expect(client.transcribe(recording.subarray(0, 20))).rejects.toThrow("pass declared_seconds")
    await expect(client.transcribe(new Blob([new Uint8Array(26_214_401)]))).rejects.toThrow("26214400")
    expect(requests).toEqual([])
  })

  it("stops when it is aborted", async () => {
    const { client } = watched()
    const stop = new AbortController()
    const onProgress = ({ jobId }: RunProgress) => jobId !== undefined && stop.abort(new Error("closed the page"))
    const call = client.speak({ input: "sandbox:delay:30" }, { signal: stop.signal, onProgress })
    await expect(call).rejects.toThrow("closed the page")
  })
})

describe("a call that is repeated after a crash", () => {
  const options = (idempotencyKey: string) => ({ idempotencyKey })

  it("finds its job, and sends the file once", async () => {
    const crash = watched()
    const died = new AbortController()
    const onProgress = ({ step }: RunProgress) => step === "waiting" && died.abort(new Error("the process died"))
    const call = crash.client.transcribe(recording, {}, { ...options("crash-1"), signal: died.signal, onProgress })
    await expect(call).rejects.toThrow("the process died")
    const { client, requests } = watched()
    const first = await client.transcribe(recording, {}, options("crash-1"))
    expect(requests).toEqual(["POST /v1/audio/transcriptions", "GET /v1/jobs/job"])
    const again = await client.transcribe(recording, {}, options("crash-1"))
    expect(again.state.id).toBe(first.state.id)
  })

  it("finds the job whose creation was not answered", async () => {
    let creations = 0
    const crash = watched((request) => request === "POST /v1/audio/transcriptions" && ++creations === 2)
    await expect(crash.client.transcribe(recording, {}, options("crash-2"))).rejects.toThrow("did not respond")
    const { client, requests } = watched()
    await client.transcribe(recording, {}, options("crash-2"))
    expect(requests).toEqual(["POST /v1/audio/transcriptions", "GET /v1/jobs/job"])
  })

  it("is one job, however many callers run at once", async () => {
    const calls = Array.from({ length: 5 }, () => watched().client.transcribe(recording, {}, options("crash-3")))
    expect(new Set((await Promise.all(calls)).map(({ state }) => state.id)).size).toBe(1)
  })

  it("is another job with another file or other fields", async () => {
    const { client } = watched()
    const other = recording.slice()
    other[other.length - 1] = (other.at(-1) ?? 0) ^ 1
    const ids = new Set<string>()
    for (const file of [recording, other])
      for (const max_output_tokens of [50, 51])
        ids.add((await client.turn(file, { max_output_tokens }, options("crash-4"))).state.id)
    expect(ids.size).toBe(4)
  })

  it("of another text under the same key is refused", async () => {
    const { client } = watched()
    await client.speak({ input: "One" }, options("text"))
    await expect(client.speak({ input: "Two" }, options("text"))).rejects.toMatchObject({
      code: "idempotency_key_reused",
    })
  })
})

describe("without an API key", () => {
  it("no Authorization is sent, and a key that is not set is refused at once", async () => {
    const headers: Array<Headers> = []
    const fetch: typeof globalThis.fetch = async (_, init) => {
      headers.push(new Headers(init?.headers))
      return Response.json({ id: "job_1", status: "done" })
    }
    const client = createClient({ baseUrl: "/kiln", fetch })
    await client.jobs.get({ id: "job_1", type: "transcription" })
    expect(headers.map((sent) => sent.has("authorization"))).toEqual([false])
    expect(() => createClient({ baseUrl: "", apiKey: process.env["KILN_NO_SUCH_KEY"] as string })).toThrow(
      "omit apiKey",
    )
  })
})
