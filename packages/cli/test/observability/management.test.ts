import { once } from "node:events"
import { createServer } from "node:net"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { describe, expect, it } from "vitest"
import type { Handle } from "@kiln/dashboard/effect"
import type { ReadinessReport } from "@kiln/http"
import { serveManagement } from "../../src/management/managementServer.ts"
import { readSettings } from "../../src/Settings.ts"

const freePort = async (): Promise<number> => {
  await using server = createServer().listen(0, "127.0.0.1")
  await once(server, "listening")
  const address = server.address()
  return typeof address === "object" ? (address?.port ?? 0) : 0
}

interface Served {
  readonly port: number
  readonly ask: (path: string, init?: RequestInit) => Promise<Response>
}

/** Runs a test against a management server whose process reports this. */
const withServer = async (
  {
    metrics = Effect.succeed("kiln_ready 1\n"),
    status = "ready",
    token,
    dashboard,
  }: {
    readonly metrics?: Effect.Effect<string>
    readonly status?: ReadinessReport["status"]
    readonly token?: string
    readonly dashboard?: Handle
  },
  test: (served: Served) => Promise<void>,
): Promise<void> => {
  const port = await freePort()
  const report: ReadinessReport = { status, checks: { store: status === "ready" ? "ok" : "failing" }, details: {} }
  const place = { host: "127.0.0.1", port, token: token === undefined ? undefined : Redacted.make(token) }
  const ask: Served["ask"] = (path, init) => fetch(`http://127.0.0.1:${port}${path}`, init)
  await Effect.runPromise(
    Effect.scoped(
      Effect.andThen(
        serveManagement(place, { metrics, readiness: Effect.succeed(report), dashboard }),
        Effect.promise(() => test({ port, ask })),
      ),
    ),
  )
}

const page = (text: string) =>
  Effect.succeed(new Response(text, { headers: { "content-type": "text/plain", "x-page": "yes" } }))

describe("the management server", () => {
  it("passes every other path to the operator's page, with its method, body and address", () =>
    withServer(
      {
        token: "a-token-of-some-length",
        dashboard: ({ remoteAddress, request }, path) =>
          Effect.flatMap(
            Effect.promise(() => request.text()),
            (body) => page(`${request.method} ${path} ${body} ${remoteAddress}`),
          ),
      },
      async ({ ask }) => {
        const changed = await ask("/admin/v1/x?y=1", { method: "POST", body: "hello" })
        expect([changed.status, changed.headers.get("x-page")]).toEqual([200, "yes"])
        expect(await changed.text()).toBe("POST /admin/v1/x hello 127.0.0.1")
        expect(await (await ask("/")).text()).toBe("GET /  127.0.0.1")
        expect((await ask("/metrics")).status).toBe(401)
        expect((await ask("/healthz")).status).toBe(200)
        expect(await (await ask("/", { method: "HEAD" })).text()).toBe("")
      },
    ))

  it("serves metrics and probes, and nothing else", () =>
    withServer({}, async ({ ask }) => {
      const metrics = await ask("/metrics?x=1")
      expect(metrics.headers.get("content-type")).toBe("text/plain; version=0.0.4; charset=utf-8")
      expect([metrics.status, await metrics.text()]).toEqual([200, "kiln_ready 1\n"])
      const ready = await ask("/readyz")
      expect([ready.status, (await ready.json()).status]).toEqual([200, "ready"])
      expect([(await ask("/healthz")).status, (await ask("/")).status, (await ask("/metrics/")).status]).toEqual([
        200, 404, 404,
      ])
      const head = await ask("/healthz", { method: "HEAD" })
      expect([head.status, await head.text()]).toEqual([200, ""])
      const post = await ask("/metrics", { method: "POST", body: "x".repeat(100_000) })
      expect([post.status, post.headers.get("allow")]).toEqual([405, "GET, HEAD"])
    }))

  it("gives every response a request id, the caller's own if it is acceptable", () =>
    withServer({}, async ({ ask }) => {
      for (const path of ["/metrics", "/healthz", "/readyz", "/x"]) {
        const idOf = async (given?: string) =>
          (await ask(path, given === undefined ? {} : { headers: { "x-request-id": given } })).headers.get(
            "x-request-id",
          )
        expect(await idOf(), path).toMatch(/^req_/)
        expect(await idOf("undefine d"), path).toMatch(/^req_/)
        expect(await idOf("a-caller.1"), path).toBe("a-caller.1")
      }
    }))

  it("reports a process that is not ready, and still that it is alive", () =>
    withServer({ status: "unavailable" }, async ({ ask }) => {
      const ready = await ask("/readyz")
      expect([ready.status, ready.headers.get("retry-after")]).toEqual([503, "5"])
      expect(await ready.json()).toMatchObject({ status: "unavailable", checks: { store: "failing" } })
      expect((await ask("/healthz")).status).toBe(200)
    }))

  it("asks for the token of metrics, and not of probes", () =>
    withServer({ token: "a-token-of-some-length" }, async ({ ask }) => {
      const given = (authorization: string) => ask("/metrics", { headers: { authorization } })
      expect((await given("Bearer a-token-of-some-length")).status).toBe(200)
      for (const wrong of ["Bearer a-token-of-some-lengt", "Bearer a-token-of-some-length2", "Basic YTpi", "Bearer"])
        expect((await given(wrong)).status, wrong).toBe(401)
      const none = await ask("/metrics")
      expect(none.status).toBe(401)
      expect(none.headers.get("www-authenticate")).toContain("Bearer")
      expect(await none.text()).not.toContain("kiln_ready")
      for (const path of ["/healthz", "/readyz"]) expect((await ask(path)).status).toBe(200)
    }))

  it("answers 500 when metrics cannot be read, and goes on", () =>
    withServer({ metrics: Effect.die(new Error("canary")) }, async ({ ask }) => {
      const failed = await ask("/metrics")
      expect([failed.status, await failed.text()]).toEqual([500, "internal error\n"])
      expect((await ask("/healthz")).status).toBe(200)
    }))

  it("explains a port that is in use", async () => {
    await using other = createServer().listen(0, "127.0.0.1")
    await once(other, "listening")
    const address = other.address()
    const place = { host: "127.0.0.1", port: typeof address === "object" ? (address?.port ?? 0) : 0, token: undefined }
    const sources = { metrics: Effect.succeed(""), readiness: Effect.never }
    const failed = await Effect.runPromise(Effect.flip(Effect.scoped(serveManagement(place, sources))))
    expect(failed.message).toContain("set KILN_MANAGEMENT_PORT to another port")
  })
})

describe("its settings", () => {
  const port = { KILN_MANAGEMENT_PORT: "9090" }

  it.each(["127.0.0.1", "127.8.0.1", "::1", "localhost"])("need no token on %s", (host) => {
    expect(readSettings({ ...port, KILN_MANAGEMENT_HOST: host })).toMatchObject({
      ok: true,
      settings: { management: { host, port: 9_090, token: undefined } },
    })
  })

  it.each(["0.0.0.0", "::", "10.0.0.1", "kiln.internal", "127.evil.example"])("need one on %s", (host) => {
    expect(readSettings({ ...port, KILN_MANAGEMENT_HOST: host })).toEqual({
      ok: false,
      problems: [{ setting: "KILN_MANAGEMENT_TOKEN", rule: expect.stringContaining("must be set") }],
    })
    const token = "a-token-of-some-length"
    expect(readSettings({ ...port, KILN_MANAGEMENT_HOST: host, KILN_MANAGEMENT_TOKEN: token })).toMatchObject({
      ok: true,
    })
  })

  it("have no effect without a port, which is reported", () => {
    const read = readSettings({ KILN_MANAGEMENT_HOST: "10.0.0.1", KILN_MANAGEMENT_TOKEN: "a-token-of-some-length" })
    expect(read).toMatchObject({
      ok: true,
      warnings: ["KILN_MANAGEMENT_HOST has no effect: KILN_MANAGEMENT_PORT is not set", expect.any(String)],
    })
  })
})
