import { createServer, type Server } from "node:http"
import type { AddressInfo } from "node:net"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { answerMalformedHttp } from "../../src/server/malformedHttp.ts"
import { codeOf, head, RawConnection } from "./RawConnection.ts"
import { startServer, type TestServer } from "./startServer.ts"

let server: TestServer
beforeAll(async () => {
  server = await startServer()
})
afterAll(() => server.stop())

const answer = async (bytes: string, method?: string) => {
  using connection = new RawConnection(server.port)
  const response = await connection.send(bytes).read(method)
  expect(response.headers.get("x-request-id")).toMatch(/^req_[0-9a-z]{26}$/)
  expect(response.headers.get("content-type")).toBe("application/json; charset=utf-8")
  expect(JSON.parse(response.body).error.request_id).toBe(response.headers.get("x-request-id"))
  return { status: response.status, code: codeOf(response) }
}

describe("bytes that are not a request", () => {
  it.each([
    ["text", "hello\r\n\r\n"],
    ["an unknown method", "FOO / HTTP/1.1\r\nHost: x\r\n\r\n"],
    ["two lengths", head("POST /v1/audio/speech", "Content-Length: 1", "Content-Length: 2")],
    ["no Host", "GET /healthz HTTP/1.1\r\n\r\n"],
    ["two Hosts", "GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"],
  ])("%s is malformed_request", async (_, bytes) => {
    expect(await answer(bytes)).toEqual({ status: 400, code: "malformed_request" })
  })

  it("headers past 16 KiB are headers_too_large", async () => {
    expect(await answer(head("GET /healthz", `X: ${"a".repeat(17_000)}`))).toEqual({
      status: 431,
      code: "headers_too_large",
    })
  })

  it("a tunnel is refused", async () => {
    expect(await answer("CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n")).toEqual({ status: 404, code: "not_found" })
  })
})

describe("unusual but ordinary requests", () => {
  it.each([
    ["an absolute target", "GET http://elsewhere/healthz HTTP/1.1\r\nHost: x\r\n\r\n"],
    ["HTTP/1.0 without Host", "GET /healthz HTTP/1.0\r\n\r\n"],
    ["an unwanted upgrade", head("GET /healthz", "Connection: Upgrade", "Upgrade: h2c")],
    ["an unknown expectation", head("GET /healthz", "Expect: a-miracle")],
  ])("%s", async (_, bytes) => {
    using connection = new RawConnection(server.port)
    expect((await connection.send(bytes).read()).status).toBe(200)
  })
})

describe("a response that has begun", () => {
  it("is not followed by a second one when the rest of the request is malformed", async () => {
    using connection = new RawConnection(server.port)
    connection.send(head("GET /healthz", "Transfer-Encoding: chunked"))
    expect((await connection.read()).status).toBe(200)
    await connection.send("zz\r\n").untilClosed()
    expect(connection.pending).toBe(0)
  })
})

describe("malformed bytes after a complete request", () => {
  it("are answered after it, in order", async () => {
    using connection = new RawConnection(server.port)
    const { secret } = await server.createKey()
    const body = JSON.stringify({ input: "x" })
    const headers = [`Authorization: Bearer ${secret}`, "Content-Type: application/json", "Idempotency-Key: a"]
    connection.send(
      `${head("POST /v1/audio/speech", ...headers, `Content-Length: ${body.length}`)}${body}nonsense\r\n\r\n`,
    )
    expect((await connection.read()).status).toBe(202)
    expect(codeOf(await connection.read())).toBe("malformed_request")
    await connection.untilClosed()
  })

  it("in its body end it: one response", async () => {
    using connection = new RawConnection(server.port)
    connection.send(`${head("POST /v1/audio/speech", "Transfer-Encoding: chunked")}zz\r\n`)
    expect(codeOf(await connection.read())).toBe("malformed_request")
    await connection.untilClosed()
    expect(connection.pending).toBe(0)
  })
})

describe("headers that do not arrive", () => {
  let slow: Server
  beforeAll(async () => {
    slow = createServer({ headersTimeout: 100, requestTimeout: 0, connectionsCheckingInterval: 20 })
    answerMalformedHttp(slow, () => "req_test")
    await new Promise<void>((resolve) => slow.listen(0, "127.0.0.1", resolve))
  })
  afterAll(() => slow.close())

  it("are answered with request_timeout, and the connection ends", async () => {
    using connection = new RawConnection((slow.address() as AddressInfo).port)
    const response = await connection.send("GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow").read()
    expect([response.status, codeOf(response)]).toEqual([408, "request_timeout"])
    await connection.untilClosed()
  })
})
