import { Option, Tracer } from "effect"
import { describe, expect, it } from "vitest"
import type { AnsweredRequest } from "../../src/index.ts"
import { startServer } from "./startServer.ts"

const speak = (url: string, key: string, headers: Readonly<Record<string, string>> = {}) =>
  fetch(`${url}/v1/audio/speech?secret=canary`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${key}`,
      "content-type": "application/json",
      "idempotency-key": crypto.randomUUID(),
      ...headers,
    },
    body: JSON.stringify({ input: "canary" }),
  })

describe("an observer", () => {
  it("is told of every request with its route, status and caller, and of nothing secret", async () => {
    const answered: Array<AnsweredRequest> = []
    let began = 0
    const observer = { began: () => void (began += 1), answered: (one: AnsweredRequest) => void answered.push(one) }
    await using server = await startServer({ observer })
    const { id: keyId, secret } = await server.createKey()
    const { id: jobId } = await (await speak(server.url, secret, { "x-request-id": "a-given-id" })).json()
    await fetch(`${server.url}/v1/jobs/${jobId}?secret=canary`, { headers: { authorization: `Bearer ${secret}` } })
    await fetch(`${server.url}/v1/jobs/${jobId}`, { headers: { authorization: "Bearer canary" } })
    await fetch(`${server.url}/canary`, { method: "PATCH" })
    await fetch(`${server.url}/v1/audio/speech`)
    expect(began).toBe(5)
    expect(answered.map(({ method, route, status }) => [method, route, status])).toEqual([
      ["POST", "/v1/audio/speech", 202],
      ["GET", "/v1/jobs/:id", 200],
      ["GET", "/v1/jobs/:id", 401],
      ["PATCH", undefined, 404],
      ["GET", undefined, 405],
    ])
    const [created, polled, refused] = answered
    expect(created).toMatchObject({ requestId: "a-given-id", keyId, jobId, path: "/v1/audio/speech" })
    expect(created?.receivedBytes).toBe(JSON.stringify({ input: "canary" }).length)
    expect(created?.sentBytes).toBeGreaterThan(0)
    expect(created?.durationMs).toBeGreaterThan(0)
    expect(polled).toMatchObject({ keyId, jobId, path: `/v1/jobs/${jobId}` })
    expect(refused).toMatchObject({ keyId: undefined, projectId: undefined, jobId })
    for (const one of answered.filter(({ route }) => route !== undefined))
      expect(JSON.stringify(one)).not.toMatch(new RegExp(`canary|${secret}`))
  })

  it.each([
    [["127.0.0.1"], "203.0.113.9"],
    [[], "127.0.0.1"],
  ])("is told the client's address: behind the proxies %j, %s", async (trustedProxies, expected) => {
    const addresses: Array<string | undefined> = []
    const observer = {
      began: () => undefined,
      answered: ({ remoteAddress }: AnsweredRequest) => void addresses.push(remoteAddress),
    }
    await using server = await startServer({ observer, http: { trustedProxies } })
    await fetch(`${server.url}/healthz`, { headers: { "x-forwarded-for": "203.0.113.9" } })
    expect(addresses).toEqual([expected])
  })
})

describe("a tracer", () => {
  const traced = async () => {
    const spans: Array<Tracer.NativeSpan> = []
    const tracer = Tracer.make({
      span: (options) => {
        const span = new Tracer.NativeSpan(options)
        spans.push(span)
        return span
      },
    })
    const server = await startServer({ tracer })
    const { secret } = await server.createKey()
    spans.length = 0
    return { server, secret, requests: () => spans.filter(({ kind }) => kind === "server") }
  }
  const traceId = "4bf92f3577b34da6a3ce929d0e0e4736"

  it("gets one span a request, of the caller's trace, without its query", async () => {
    const { requests, secret, server } = await traced()
    await using _ = server
    await speak(server.url, secret, { traceparent: `00-${traceId}-00f067aa0ba902b7-01` })
    await fetch(`${server.url}/v1/files/fil_x?e=1&k=k&s=canary`)
    await fetch(`${server.url}/openapi.json`)
    await fetch(`${server.url}/canary`)
    await fetch(`${server.url}/healthz`)
    expect(requests().map(({ name }) => name)).toEqual([
      "POST /v1/audio/speech",
      "GET /v1/files/:id",
      "GET /openapi.json",
      "GET",
    ])
    const [first] = requests()
    expect(first?.traceId).toBe(traceId)
    expect(Option.getOrUndefined(first?.parent ?? Option.none())?.spanId).toBe("00f067aa0ba902b7")
    expect(first?.attributes.get("http.response.status_code")).toBe(202)
    for (const { attributes, name } of requests())
      expect(`${name} ${JSON.stringify([...attributes])}`).not.toMatch(/canary/)
  })

  it.each([
    "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
    `00-${traceId}-0000000000000000-01`,
    `ff-${traceId}-00f067aa0ba902b7-01`,
    `00-${traceId}-00f067aa0ba902b7-01-more`,
    `00-${traceId.toUpperCase()}-00f067aa0ba902b7-01`,
    "nonsense",
  ])("begins a new trace for the traceparent %s", async (traceparent) => {
    const { requests, secret, server } = await traced()
    await using _ = server
    expect((await speak(server.url, secret, { traceparent })).status).toBe(202)
    const [span] = requests()
    expect(span?.traceId).not.toBe(traceId)
    expect(Option.isNone(span?.parent ?? Option.none())).toBe(true)
  })
})
