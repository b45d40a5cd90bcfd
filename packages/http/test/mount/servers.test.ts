import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { wav } from "@kiln/service-lab"
import { Connection, requestBytes } from "../contract/support/Connection.ts"
import { Client } from "./support/Client.ts"
import { type MountedEngine, openEngine } from "./support/MountedEngine.ts"
import { listen, mounts, publicUrl } from "./support/servers.ts"

const wholeFile = 26_214_400
/** More than sockets and streams on both sides hold between them. */
const stillHere = 12_000_000

describe.each(mounts)("in %s", (_, mount) => {
  let mounted: MountedEngine
  let server: Awaited<ReturnType<typeof listen>>
  let secret: string
  let client: Client
  beforeAll(async () => {
    mounted = await openEngine()
    secret = await mounted.createKey()
    server = await listen(await mount(mounted.engine))
    client = new Client(server.port, secret)
  })
  afterAll(async () => {
    await server[Symbol.asyncDispose]()
    await mounted[Symbol.asyncDispose]()
  })

  const announce = async () => {
    const { body } = await client.ask("POST", "/v1/audio/uploads", { format: "wav", declared_seconds: 900 })
    expect(body.upload_url).toMatch(/^https:\/\/app\.example\/api\/kiln\/v1\/audio\/uploads\/upl_\w+\/file\?e=/)
    return body as { readonly id: string; readonly upload_url: string }
  }
  /** The head of a PUT, written by hand: what follows is the test's to send. */
  const beginPut = async (upload_url: string, bytes: number) => {
    const { pathname, search } = new URL(upload_url)
    const headers = Object.entries({ host: "x", "content-type": "audio/wav", "content-length": String(bytes) })
    const connection = await Connection.open(server.port)
    return connection.send(requestBytes({ method: "PUT", target: pathname + search, headers }))
  }

  it("leaves everything else to the server", async () => {
    const response = await fetch(`http://127.0.0.1:${server.port}/hello`)
    expect([response.status, await response.text()]).toEqual([200, "hello"])
  })

  it("creates, polls, downloads in parts and erases", async () => {
    const created = await client.ask("POST", "/v1/audio/speech", { input: "Hello" })
    expect(created).toMatchObject({ status: 202, body: { object: "job", type: "speech_synthesis", mode: "sandbox" } })
    const location = created.headers.get("location") ?? ""
    expect(location).toBe(`${publicUrl}/v1/jobs/${created.body.id}`)
    const { output } = await client.finished(location)
    const url = client.local(output.audio_url)
    const whole = new Uint8Array(await (await fetch(url)).arrayBuffer())
    const part = await fetch(url, { headers: { range: "bytes=2-5" } })
    expect([part.status, part.headers.get("content-range")]).toEqual([206, `bytes 2-5/${whole.length}`])
    expect(new Uint8Array(await part.arrayBuffer())).toEqual(whole.slice(2, 6))
    const head = await fetch(url, { method: "HEAD" })
    expect([head.status, head.headers.get("content-length"), head.headers.get("access-control-allow-origin")]).toEqual([
      200,
      String(whole.length),
      "*",
    ])
    const preflight = await fetch(url, { method: "OPTIONS" })
    expect([preflight.status, preflight.headers.get("access-control-allow-methods")]).toEqual([204, "GET, HEAD"])
    expect((await client.ask("DELETE", `/v1/jobs/${created.body.id}/data`)).status).toBe(204)
    expect((await fetch(url)).status).toBe(410)
  })

  it("answers with the envelope under its prefix, and an unknown key with 401", async () => {
    expect(await client.ask("GET", "/v1/nothing")).toMatchObject({
      status: 404,
      body: { error: { code: "not_found" } },
    })
    const refused = await new Client(server.port, undefined).ask("POST", "/v1/audio/speech", { input: "x" })
    expect(refused).toMatchObject({ status: 401, body: { error: { code: "missing_api_key" } } })
    expect(refused.headers.get("access-control-allow-origin")).toBeNull()
    expect(refused.headers.get("x-request-id")).toBe(refused.body.error.request_id)
  })

  it("reads from the sender of a file only as fast as the blob store, and then all of it", async () => {
    const { id, upload_url } = await announce()
    const file = Buffer.concat([wav(1), Buffer.alloc(wholeFile - wav(1).length)])
    const open = mounted.shutBlobs()
    const connection = await beginPut(upload_url, file.length)
    connection.send(file)
    // Nothing moves any more.
    for (let before = Infinity; connection.backlog !== before;) {
      before = connection.backlog
      await connection.quiet(100)
    }
    expect(connection.backlog).toBeGreaterThan(stillHere)
    open()
    expect((await connection.read("PUT")).status).toBe(204)
    connection.destroy()
    const job = await client.ask("POST", "/v1/audio/transcriptions", { upload_id: id })
    expect(job.status).toBe(202)
    expect((await client.finished(job.headers.get("location") ?? "")).status).toBe("done")
  })

  it("ends a transfer whose sender disconnects, and accepts the next one", async () => {
    const { upload_url } = await announce()
    const broken = await beginPut(upload_url, 1_000_000)
    broken.send(wav(1))
    const put = (type: string) =>
      fetch(client.local(upload_url), {
        method: "PUT",
        headers: { "content-type": type },
        body: new Uint8Array(wav(1)),
      })
    // Of a transfer that runs the type is not looked at.
    while ((await put("text/plain")).status !== 409);
    broken.destroy()
    while ((await put("text/plain")).status === 409);
    const { status } = await put("audio/wav")
    expect(status).toBe(204)
  })

  it("answers nothing once the engine has stopped", async () => {
    await mounted.engine.stop()
    expect(await client.ask("POST", "/v1/audio/speech", { input: "x" })).toMatchObject({
      status: 503,
      body: { error: { code: "service_unavailable" } },
    })
  })
})
