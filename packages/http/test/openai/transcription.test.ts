import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { measuredSeconds, startServer, type TestServer } from "../server/startServer.ts"
import { RawConnection } from "../server/RawConnection.ts"
import { type Answer, boundary, callerOf, form, type Part, until, wav } from "./support.ts"

// Verifies docs/guides/openai.md about transcriptions over HTTP.

const maxUploads = 3
let server: TestServer
let key: string
let call: ReturnType<typeof callerOf>
beforeAll(async () => {
  server = await startServer({
    worker: true,
    http: { openAi: { waitMs: 20_000 } },
    upload: { maxBytes: 100_000 },
    engine: { uploadCap: { uploads: maxUploads, bytes: 0 } },
  })
  key = (await server.createKey()).secret
  call = callerOf(server, key)
})
afterAll(() => server.stop())

const transcribe = (...parts: ReadonlyArray<Part>) => call("audio/transcriptions", form(...parts))
const errorOf = ({ json, status }: Answer) => ({ status, ...json.error })
const jobOf = ({ headers }: Answer) => headers.get("x-kiln-job-id")
const model: Part = ["model", "whisper-1"]
const file: Part = ["file", wav()]

describe("a transcription", () => {
  it.each([
    [[model, file]],
    [[file, model]],
    [[["temperature", "0"], file, ["response_format", "json"], model]],
  ] as ReadonlyArray<readonly [ReadonlyArray<Part>]>)("accepts its fields in any order: %#", async (parts) => {
    const { json, status } = await transcribe(...parts)
    expect([status, json]).toEqual([200, { text: expect.stringMatching(/./) }])
  })

  it("is plain text or has its details, as response_format says", async () => {
    const { text } = (await transcribe(model, file)).json
    const plain = await transcribe(file, model, ["response_format", "text"])
    expect(plain.headers.get("content-type")).toMatch(/^text\/plain/)
    expect(plain.text).toBe(`${text}\n`)
    const verbose = await transcribe(["response_format", "verbose_json"], model, file)
    expect(verbose.json).toEqual({ task: "transcribe", language: expect.any(String), text, duration: measuredSeconds })
    const polled = await fetch(`${server.url}/v1/jobs/${jobOf(verbose)}`, {
      headers: { authorization: `Bearer ${key}` },
    })
    expect((await polled.json()).output).toEqual({ transcript: text })
  })

  it.each([
    ["model", [["model", "gpt-9"], file], /whisper-1/],
    ["model", [file, ["model", "gpt-9"]], /whisper-1/],
    ["language", [model, file, ["language", "en"]], /leave it out/],
    ["response_format", [model, file, ["response_format", "srt"]], /verbose_json/],
    ["stream", [model, file, ["stream", "true"]], /not supported/],
    ["modle", [["modle", "whisper-1"], file], /did you mean "model"/],
    ["file", [model], /required/],
    ["file", [model, ["file", "text"]], /required/],
    ["file", [model, file, file], /more than one/],
    ["file", [model, ["file", Buffer.alloc(99, 65)]], /mp3/],
  ] as ReadonlyArray<readonly [string, ReadonlyArray<Part>, RegExp]>)(
    "is refused by name: %s %#",
    async (param, parts, message) => {
      const refused = errorOf(await transcribe(...parts))
      expect(refused).toMatchObject({ status: 400, param, message: expect.stringMatching(message) })
    },
  )

  it("of an empty file is refused without the advice for uploads", async () => {
    const refused = errorOf(await transcribe(model, ["file", Buffer.alloc(0)]))
    expect(refused).toMatchObject({ status: 422, code: "empty_file", message: expect.not.stringContaining("PUT") })
  })

  it("is limited in size, with and without a declared length", async () => {
    const large: Part = ["file", wav(100_001)]
    expect(errorOf(await transcribe(model, large))).toMatchObject({ status: 413, code: "file_too_large" })
    expect((await transcribe(model, ["file", wav(100_000 - 44)])).status).toBe(200)
    const body = form(model, ["file", wav(300_000)])
    expect(errorOf(await call("audio/transcriptions", body))).toMatchObject({ status: 413, code: "file_too_large" })
    const chunked = await fetch(`${server.url}/openai/v1/audio/transcriptions`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": `multipart/form-data; boundary=${boundary}` },
      body: new Blob([new Uint8Array(form(model, large))]).stream(),
      duplex: "half",
    } as RequestInit)
    expect([chunked.status, (await chunked.json()).error.code]).toEqual([413, "file_too_large"])
  })

  it("needs a form", async () => {
    expect(errorOf(await call("audio/transcriptions", { model: "whisper-1" }))).toMatchObject({ status: 415 })
    const cut = form(model, file).subarray(0, -20)
    expect(errorOf(await call("audio/transcriptions", cut))).toMatchObject({ status: 400 })
  })

  it("repeats the first result under one Idempotency-Key, and refuses another file", async () => {
    const once = { "idempotency-key": crypto.randomUUID() }
    const first = await call("audio/transcriptions", form(model, file), once)
    const second = await call("audio/transcriptions", form(file, model), once)
    expect([second.status, jobOf(second), second.text]).toEqual([200, jobOf(first), first.text])
    const other = await call("audio/transcriptions", form(model, ["file", wav(900)]), once)
    expect(errorOf(other)).toMatchObject({ status: 422, code: "idempotency_key_reused" })
  })
})

describe("uploads that no job uses", () => {
  /** Announced uploads of a fresh key's project that still fit under the cap. */
  const announce = async (secret: string) =>
    (
      await fetch(`${server.url}/v1/audio/uploads`, {
        method: "POST",
        headers: { authorization: `Bearer ${secret}`, "content-type": "application/json" },
        body: JSON.stringify({ format: "wav", declared_seconds: 1 }),
      })
    ).status

  it("are not made by retries that join", async () => {
    const { secret } = await server.createKey()
    const ask = callerOf(server, secret)
    const body = form(model, file)
    const first = await ask("audio/transcriptions", body, { "x-stainless-retry-count": "0" })
    for (let retries = 1; retries <= 2 * maxUploads; retries += 1) {
      const retried = await ask("audio/transcriptions", body, { "x-stainless-retry-count": String(retries) })
      expect([retried.status, jobOf(retried), retried.json.error]).toEqual([200, jobOf(first), undefined])
    }
    expect(await announce(secret)).toBe(201)
  })

  it("are not left by clients that hang up, or by forms that are refused", async () => {
    const { secret } = await server.createKey()
    const ask = callerOf(server, secret)
    const body = form(file, model)
    for (let cut = 0; cut < 2 * maxUploads; cut += 1) {
      const connection = new RawConnection(server.port)
      connection.send(
        `POST /openai/v1/audio/transcriptions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${secret}\r\nContent-Type: multipart/form-data; boundary=${boundary}\r\nContent-Length: ${body.length}\r\n\r\n`,
      )
      connection.socket.write(body.subarray(0, 700))
      await new Promise((resolve) => setTimeout(resolve, 20))
      connection.socket.destroy()
      expect((await ask("audio/transcriptions", form(file, ["model", "gpt-9"]))).status).toBe(400)
    }
    await until(async () => (await announce(secret)) === 201)
  })
})
