import { createSecureServer, createServer } from "node:http2"
import { get } from "node:https"
import type { AddressInfo, Server } from "node:net"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { nodeHandler, type NodeHandler } from "@kiln/http/mount"
import { wav } from "@kiln/service-lab"
import { Http2Client } from "./support/Http2Client.ts"
import { type MountedEngine, openEngine } from "./support/MountedEngine.ts"
import { selfSigned } from "./support/selfSigned.ts"
import { publicUrl } from "./support/servers.ts"

const prefix = "/api/kiln"

const servers: ReadonlyArray<readonly [name: string, scheme: string, make: (handler: NodeHandler) => Server]> = [
  ["http2.createServer", "http", (handler) => createServer((request, response) => handler(request, response))],
  [
    "http2.createSecureServer, with HTTP/1 allowed",
    "https",
    (handler) =>
      createSecureServer({ ...selfSigned, allowHTTP1: true }, (request, response) => handler(request, response)),
  ],
]

describe.each(servers)("%s", (_, scheme, make) => {
  let mounted: MountedEngine
  let server: Server
  let client: Http2Client
  let secret: string
  let port: number
  beforeAll(async () => {
    mounted = await openEngine()
    secret = await mounted.createKey()
    server = make(await nodeHandler(mounted.engine, { publicUrl, pages: true }))
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
    port = (server.address() as AddressInfo).port
    client = new Http2Client(`${scheme}://127.0.0.1:${port}`)
  })
  afterAll(async () => {
    await client[Symbol.asyncDispose]()
    await new Promise((resolve) => server.close(resolve))
    await mounted[Symbol.asyncDispose]()
  })

  const local = (url: string) => url.slice("https://app.example".length)
  const keyed = (more: Readonly<Record<string, string>> = {}) => ({ authorization: `Bearer ${secret}`, ...more })
  const create = (path: string, body: object, key: string) =>
    client.ask(
      "POST",
      prefix + path,
      keyed({ "content-type": "application/json", "idempotency-key": key }),
      JSON.stringify(body),
    )
  const finished = async (location: string) => {
    while (true) {
      const { status, text } = await client.ask("GET", local(location), keyed())
      expect(status).toBe(200)
      const job = JSON.parse(text)
      if (job.status === "done" || job.status === "failed") return job
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
  }
  const announce = async (): Promise<{ readonly id: string; readonly url: string }> => {
    const { status, text } = await create("/v1/audio/uploads", { format: "wav", declared_seconds: 1 }, "upload")
    expect(status).toBe(201)
    const { id, upload_url } = JSON.parse(text)
    return { id, url: local(upload_url) }
  }

  it("creates, replays, polls, downloads in parts and erases", async () => {
    const created = await create("/v1/audio/speech", { input: "Hello" }, "speech")
    expect([created.status, created.headers["connection"]]).toEqual([202, undefined])
    const replayed = await create("/v1/audio/speech", { input: "Hello" }, "speech")
    expect([replayed.text, replayed.headers["idempotency-replayed"]]).toEqual([created.text, "true"])
    const job = await finished(String(created.headers["location"]))
    const file = local(job.output.audio_url)
    const part = await client.ask("GET", file, { range: "bytes=2-5" })
    expect([part.status, part.headers["content-length"]]).toEqual([206, "4"])
    const head = await client.ask("HEAD", file)
    expect([head.status, head.text, head.headers["content-type"]]).toEqual([200, "", "audio/mpeg"])
    expect((await client.ask("OPTIONS", file)).status).toBe(204)
    expect((await client.ask("DELETE", `${prefix}/v1/jobs/${job.id}/data`, keyed())).status).toBe(204)
    expect((await client.ask("GET", file)).status).toBe(410)
  })

  it("creates images, takes uploads and transcribes them", async () => {
    expect((await create("/v1/images/generations", { prompt: "A kiln" }, "image")).status).toBe(202)
    const { id, url } = await announce()
    expect((await client.ask("PUT", url, { "content-type": "audio/wav" }, wav(1))).status).toBe(204)
    const job = await create("/v1/audio/transcriptions", { upload_id: id }, "transcription")
    expect((await finished(String(job.headers["location"]))).status).toBe("done")
  })

  it("answers health and pages", async () => {
    for (const path of ["/healthz", "/readyz", "/", "/docs", "/openapi.json"])
      expect((await client.ask("GET", prefix + path, { "accept-encoding": "identity" })).status, path).toBe(200)
  })

  it("refuses with the envelope: unknown paths, wrong methods, no key, two keys, odd bodies", async () => {
    const refusals = [
      await client.ask("GET", `${prefix}/v1/nothing`),
      await client.ask("PATCH", `${prefix}/v1/audio/speech`),
      await client.ask("POST", `${prefix}/v1/audio/speech`, {}, "{}"),
      await create("/v1/audio/speech", {}, "odd"),
      await client.ask("POST", `${prefix}/v1/audio/speech`, keyed({ "content-type": "application/json" }), "{"),
      await client.ask("POST", `${prefix}/v1/audio/speech`, keyed({ "content-type": "text/plain" }), "{}"),
    ]
    expect(refusals.map(({ status, text }) => [status, JSON.parse(text).error.code])).toEqual([
      [404, "not_found"],
      [405, "method_not_allowed"],
      [401, "missing_api_key"],
      [400, "invalid_request"],
      [400, "invalid_json"],
      [415, "unsupported_content_type"],
    ])
  })

  it("never treats a truncated body as complete", async () => {
    const { url } = await announce()
    const broken = client.begin("PUT", url, { "content-type": "audio/wav" })
    broken.on("error", () => {})
    broken.write(wav(1))
    const put = (type: string) => client.ask("PUT", url, { "content-type": type }, wav(1))
    while ((await put("text/plain")).status !== 409);
    broken.close(8)
    while ((await put("text/plain")).status === 409);
    expect((await put("audio/wav")).status).toBe(204)
  })

  it("refuses a body beyond its limit, and ends the stream before the client does", async () => {
    const closed = new Promise((resolve) => server.once("stream", (stream) => stream.once("close", resolve)))
    const stream = client.begin("POST", `${prefix}/v1/audio/speech`, keyed({ "content-type": "application/json" }))
    stream.on("error", () => {})
    stream.write(" ".repeat(200_000))
    expect((await client.answerOf(stream)).status).toBe(413)
    await closed
    stream.destroy()
  })

  it("serves many concurrent streams of one session", async () => {
    const answers = await Promise.all(Array.from({ length: 200 }, () => client.ask("GET", `${prefix}/healthz`)))
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]))
    expect(new Set(answers.map(({ headers }) => headers["x-request-id"])).size).toBe(200)
  })

  // Without TLS nothing tells the two protocols apart on one port.
  it.skipIf(scheme === "http")("answers HTTP/1 on the same port", async () => {
    const status = await new Promise((resolve, reject) => {
      get({ port, host: "127.0.0.1", path: `${prefix}/healthz`, rejectUnauthorized: false }, (response) => {
        response.resume().on("end", () => resolve(response.statusCode))
      }).on("error", reject)
    })
    expect(status).toBe(200)
  })

  it("answers nothing once the engine has stopped", async () => {
    await mounted.engine.stop()
    const { headers, status } = await create("/v1/audio/speech", { input: "x" }, "late")
    expect([status, headers["connection"]]).toEqual([503, undefined])
  })
})
