import { createServer, type RequestListener } from "node:http"
import type { AddressInfo } from "node:net"
import { once } from "node:events"
import express from "express"
import fastify from "fastify"
import { Hono } from "hono"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { builtInKinds, createEngine } from "@kiln/core"
import { memoryBlobs, memoryStore } from "@kiln/testing"
import { sandboxProviders } from "@kiln/provider-sandbox"
import { sendResponse, toRequest } from "../src/effect.ts"
import { type DashboardOptions, dashboard } from "../src/index.ts"

const authorize: NonNullable<DashboardOptions["authorize"]> = ({ headers }) =>
  headers.get("cookie") === "user=alice" ? { name: "alice", roles: ["operate"] } : undefined

type Engine = DashboardOptions["engine"]

const openEngine = () =>
  createEngine({
    store: memoryStore(),
    blobs: memoryBlobs(),
    kinds: builtInKinds(),
    providers: { sandbox: sandboxProviders() },
    log: false,
  })

/** Runs a web-standard handler on Node's server. */
const bridge =
  (handle: (request: Request) => Response | Promise<Response>): RequestListener =>
  (message, response) =>
    void toRequest(message).then(async (request) =>
      sendResponse(response, await handle(request), message.method === "HEAD"),
    )

/** The page under `/ops` of the servers that people have. */
const mounts: Readonly<Record<string, (engine: Engine) => Promise<RequestListener>>> = {
  express: async (engine) => {
    const { node } = await dashboard({ engine, authorize })
    return express().use("/ops", node)
  },
  fastify: async (engine) => {
    const { node } = await dashboard({ engine, authorize, prefix: "/ops" })
    const app = fastify()
    app.removeAllContentTypeParsers()
    app.addContentTypeParser("*", (_, __, done) => done(null))
    const handle = (request: { readonly raw: never }, reply: { readonly raw: never; readonly hijack: () => void }) => {
      reply.hijack()
      node(request.raw, reply.raw)
    }
    app.all("/ops", handle as never)
    app.all("/ops/*", handle as never)
    await app.ready()
    return (request, response) => app.routing(request, response)
  },
  hono: async (engine) => {
    const { fetch } = await dashboard({ engine, authorize, prefix: "/ops" })
    const app = new Hono()
    app.all("/ops/*", (c) => fetch(c.req.raw))
    app.all("/ops", (c) => fetch(c.req.raw))
    return bridge((request) => app.fetch(request))
  },
  // As a route handler of Next.js is called.
  fetch: async (engine) => {
    const { fetch } = await dashboard({ engine, authorize, prefix: "/ops" })
    return bridge(fetch)
  },
}

describe.each(Object.entries(mounts))("mounted in %s", (_, mount) => {
  let engine: Awaited<ReturnType<typeof openEngine>>
  let server: ReturnType<typeof createServer>
  let base: string
  beforeAll(async () => {
    engine = await openEngine()
    server = createServer(await mount(engine)).listen(0, "127.0.0.1")
    await once(server, "listening")
    base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  })
  afterAll(async () => {
    server.close()
    server.closeAllConnections()
    await engine.stop()
  })

  it("serves the page, whose files lie beside it, with a policy that allows nothing else", async () => {
    const page = await fetch(`${base}/ops`)
    expect([page.status, page.url]).toEqual([200, `${base}/ops/`])
    expect(page.headers.get("content-security-policy")).toBe(
      "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    )
    const html = await page.text()
    for (const file of ["./app.js", "./app.css"]) {
      expect(html).toContain(file)
      expect((await fetch(new URL(file, page.url))).status).toBe(200)
    }
    const known = await fetch(`${base}/ops/app.js`)
    const again = await fetch(`${base}/ops/app.js`, { headers: { "if-none-match": known.headers.get("etag") ?? "" } })
    expect(again.status).toBe(304)
    expect((await fetch(`${base}/ops/nothing`)).status).toBe(404)
  })

  it("gives every response the request id of its caller", async () => {
    for (const path of ["/ops", "/ops/", "/ops/nothing", "/ops/admin/v1/session"]) {
      const { headers } = await fetch(base + path, { headers: { "x-request-id": "a-caller.1" }, redirect: "manual" })
      expect(headers.get("x-request-id"), path).toBe("a-caller.1")
    }
  })

  it("asks the host who the caller is", async () => {
    const session = `${base}/ops/admin/v1/session`
    expect((await fetch(session)).status).toBe(401)
    const headers = { cookie: "user=alice" }
    expect(await (await fetch(session, { headers })).json()).toEqual({
      actor: "alice",
      roles: ["operate"],
      version: null,
    })
    const on = (more: object) =>
      fetch(`${base}/ops/admin/v1/switches/ai/on`, { method: "POST", body: "{}", headers: { ...headers, ...more } })
    expect((await on({ "content-type": "text/plain" })).status).toBe(403)
    // Without a bearer token, a browser may have been led to send it by another site.
    expect((await fetch(`${base}/ops/admin/v1/switches/ai/on`, { method: "POST", headers })).status).toBe(403)
    expect((await on({ "content-type": "application/json", origin: "https://evil.example" })).status).toBe(403)
    expect((await on({ "content-type": "application/json", origin: base })).status).toBe(200)
    expect((await engine.operator.board()).switches.ai).toBe(true)
  })
})

describe("dashboard()", () => {
  it("rejects what is no option, and an engine that has stopped", async () => {
    const engine = await openEngine()
    await expect(dashboard({ engine, prefix: "ops" })).rejects.toThrow("prefix must consist of segments")
    await expect(dashboard({ engine, authorise: authorize } as never)).rejects.toThrow("authorise")
    await expect(dashboard({ engine: {} as never })).rejects.toThrow("expected an engine returned by createEngine()")
    const { fetch: ask } = await dashboard({ engine, authorize: () => ({ name: "x", roles: ["root"] }) as never })
    expect((await ask(new Request("http://x/admin/v1/session"))).status).toBe(500)
    await engine.stop()
    await expect(dashboard({ engine })).rejects.toThrow("the engine is closed")
  })
})
