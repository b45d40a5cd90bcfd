import { Effect } from "effect"
import { describe, expect, it } from "vitest"
import { Readiness } from "../../src/index.ts"
import { codeOf, head, RawConnection } from "./RawConnection.ts"
import { startServer, type TestServer } from "./startServer.ts"

const refuses = (port: number) =>
  new Promise<boolean>((resolve) => {
    const probe = new RawConnection(port).socket
    probe
      .once("error", () => resolve(true))
      .once("connect", () => {
        probe.destroy()
        resolve(false)
      })
  })

/** A connection that has been accepted: the server has answered on it. */
const accepted = async (server: TestServer) => {
  const connection = new RawConnection(server.port)
  expect((await connection.send(head("GET /healthz")).read()).status).toBe(200)
  return connection
}

const patience = { timeout: 120_000 }

describe("stopping", () => {
  it("answers requests on open connections once, and closes idle ones", async () => {
    const server = await startServer()
    using idle = await accepted(server)
    using silent = new RawConnection(server.port)
    using begun = new RawConnection(server.port)
    begun.send("G")
    using half = await accepted(server)
    using late = await accepted(server)
    using health = await accepted(server)
    using ready = await accepted(server)
    half.send(head("POST /v1/audio/speech", "Content-Length: 10")).send("12345")
    // Requests that begin only when their headers end.
    late.send("GET /v1/jobs/x HTTP/1.1\r\nHost: x\r\n")
    health.send("GET /healthz HTTP/1.1\r\nHost: x\r\n")
    ready.send("GET /readyz HTTP/1.1\r\nHost: x\r\n")
    // Bytes sent before this request have reached the server before it.
    using _ = await accepted(server)

    let stopped = false
    const stopping = server.stop().then(() => (stopped = true))
    await Promise.all([idle.untilClosed(), silent.untilClosed()])
    await expect.poll(() => refuses(server.port), patience).toBe(true)
    expect(stopped).toBe(false)

    expect((await begun.send(head("ET /healthz")).read()).status).toBe(200)

    const begunBefore = await half.send("67890").read()
    expect([codeOf(begunBefore), begunBefore.headers.get("connection")]).toEqual(["missing_api_key", "close"])
    // A proxy that has already sent a request cannot take it back.
    const begunAfter = await late.send("\r\n").read()
    expect([codeOf(begunAfter), begunAfter.headers.get("connection")]).toEqual(["missing_api_key", "close"])
    await late.untilClosed()
    expect((await health.send("\r\n").read()).status).toBe(200)
    const readiness = await ready.send("\r\n").read()
    expect([readiness.status, JSON.parse(readiness.body)]).toMatchObject([503, { status: "stopping" }])
    await stopping
  })

  it("that is announced ends connections, and refuses nothing", async () => {
    await using server = await startServer()
    using open = await accepted(server)
    await server.run(Effect.flatMap(Readiness, ({ markStopping }) => markStopping))
    const last = await open.send(head("GET /v1/jobs/x")).read()
    expect([codeOf(last), last.headers.get("connection")]).toEqual(["missing_api_key", "close"])
    await open.untilClosed()
    using fresh = new RawConnection(server.port)
    const readiness = await fresh.send(head("GET /readyz")).read()
    expect([readiness.status, JSON.parse(readiness.body)]).toMatchObject([503, { status: "stopping" }])
    using alive = new RawConnection(server.port)
    expect((await alive.send(head("GET /healthz")).read()).status).toBe(200)
  })

  it("interrupts nothing that uses a store: a transfer in progress is finished", async () => {
    const server = await startServer()
    const { secret } = await server.createKey()
    const announced = await fetch(`${server.url}/v1/audio/uploads`, {
      method: "POST",
      headers: { authorization: `Bearer ${secret}`, "content-type": "application/json" },
      body: JSON.stringify({ format: "wav", declared_seconds: 1 }),
    })
    const { upload_url } = (await announced.json()) as { upload_url: string }
    using connection = await accepted(server)
    connection.send(head(`PUT ${upload_url.slice(server.url.length)}`, "Content-Type: audio/wav", "Content-Length: 20"))
    connection.send("RIFF\0\0\0\0WAVE")
    using _ = await accepted(server)
    const stopping = server.stop()
    await expect.poll(() => refuses(server.port), patience).toBe(true)
    expect((await connection.send("fmt data").read()).status).toBe(204)
    await stopping
  })
})
