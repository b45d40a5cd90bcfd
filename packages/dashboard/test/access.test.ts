import Sqlite from "better-sqlite3"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { adminDocument, type Operation, operations } from "../src/api/index.ts"
import { canary, openWorld, type World } from "./support/world.ts"

const all = Object.entries(operations as Readonly<Record<string, Operation>>)

/** Names that exist, so that a change would be made if it were allowed. */
const idFor = (path: string, jobId: string): string => {
  if (path.startsWith("/jobs")) return path.replace(":id", jobId)
  if (path.startsWith("/types")) return path.replace(":id", "echo")
  return path.replace(":id", path.startsWith("/switches") ? "ai" : "acme")
}

const bodyFor = (path: string): object => {
  if (path.startsWith("/bulk")) return { filter: { type: "echo" }, dry_run: false }
  if (path.endsWith("/limit")) return { concurrency: 1 }
  if (path.endsWith("/reschedule")) return { run_at: "2000-01-01T00:00:00Z" }
  return path.endsWith("/cap") ? { currency: "usd", day: "1", month: null } : {}
}

/** Everything in the store but what workers and the clock write by themselves. */
const contentOf = (path: string): string => {
  const database = new Sqlite(path, { readonly: true })
  const tables = database
    .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'kiln_%' ORDER BY name")
    .all([]) as ReadonlyArray<{ readonly name: string }>
  const left = new Set(["kiln_workers", "kiln_minutes", "kiln_store_time", "kiln_served_kinds", "kiln_retention_rules"])
  const content = tables
    .filter(({ name }) => !left.has(name))
    .map(({ name }) => [name, database.prepare(`SELECT * FROM ${name}`).all([])])
  database.close()
  return JSON.stringify(content)
}

let world: World
let jobId: string
beforeAll(async () => {
  world = await openWorld("sqlite")
  jobId = (await world.engine.submit("echo", { text: "wait" }, { project: "acme" })).id
})
afterAll(() => world[Symbol.asyncDispose]())

describe("the API of operators", () => {
  it("is described by its document, operation by operation", () => {
    const { paths } = adminDocument()
    const described = Object.entries(paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path.replace("{id}", ":id")}`),
    )
    expect(described.toSorted()).toEqual(all.map(([, { method, path }]) => `${method} /admin/v1${path}`).toSorted())
  })

  it("changes only by POST, and every change needs the role operate", () => {
    for (const [name, { method, role }] of all) expect([name, method === "POST"]).toEqual([name, role === "operate"])
  })

  it("refuses everybody without a token, with a wrong one, an expired one and a revoked one", async () => {
    const expired = await world.createToken("old", ["operate"], Date.now() - 1)
    const wrong = world.tokens.operate.replace(/.$/, (last) => (last === "x" ? "y" : "x"))
    for (const [, { method, path }] of all) {
      const target = idFor(path, jobId)
      expect([target, (await world.ask(undefined, method, target)).body.error.code]).toEqual([target, "missing_token"])
      for (const token of [wrong, expired.secret, "x"])
        expect((await world.ask(token, method, target)).body.error.code).toBe("invalid_token")
    }
    expect((await world.ask(undefined, "GET", "/overview/stream")).status).toBe(401)
  })

  it("lets a token with the role view change nothing, by any method on any path", async () => {
    const before = contentOf(world.path)
    for (const [, { path }] of all)
      for (const method of ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]) {
        const target = idFor(path, jobId)
        const { status } = await world.ask(world.tokens.view, method, target, bodyFor(path))
        const allowed = all.find(
          (each) => each[1].path === path && each[1].method === (method === "HEAD" ? "GET" : method),
        )
        const expected = allowed === undefined ? [405] : allowed[1].role === "view" ? [200, 404] : [403]
        expect([method, target, expected.includes(status)]).toEqual([method, target, true])
      }
    expect(contentOf(world.path)).toBe(before)
  })

  it("lets content see callers' data and change nothing, and operate change and see none", async () => {
    expect((await world.ask(world.tokens.content, "POST", "/types/echo/pause")).status).toBe(403)
    expect((await world.ask(world.tokens.content, "GET", "/jobs")).status).toBe(200)
    expect((await world.ask(world.tokens.operate, "GET", `/jobs/${jobId}/content`)).status).toBe(403)
  })

  it("refuses a change that another site's page sends", async () => {
    const before = contentOf(world.path)
    const pause = (headers: Readonly<Record<string, string>>) =>
      world.ask(world.tokens.operate, "POST", "/types/echo/pause", {}, headers)
    for (const headers of [
      { origin: "https://evil.example" },
      { origin: "null" },
      { "sec-fetch-site": "cross-site" },
      { "sec-fetch-site": "same-site" },
      { "content-type": "text/plain" },
      { "content-type": "application/x-www-form-urlencoded" },
    ])
      expect([headers, (await pause(headers)).body.error.code]).toEqual([headers, "cross_site"])
    expect(contentOf(world.path)).toBe(before)
    for (const own of [
      { origin: "http://ops.example" },
      { origin: "https://behind.a.proxy", "sec-fetch-site": "same-origin" },
      {},
    ])
      expect((await pause(own)).status).toBe(200)
    expect((await world.ask(world.tokens.operate, "POST", "/types/echo/resume")).status).toBe(200)
  })

  it("records each change under the token's name", async () => {
    const { body } = await world.ask(world.tokens.view, "GET", "/audit")
    expect(body.changes.slice(0, 2)).toMatchObject([
      { actor: "alice", action: "queue.resume", subject: "echo" },
      { actor: "alice", action: "queue.pause", subject: "echo" },
    ])
  })

  it("accepts a change without a body, as the OpenAPI document describes it, with a bearer token", async () => {
    const resume = (headers: Readonly<Record<string, string>>) =>
      world.fetch(new Request("http://ops.example/admin/v1/types/echo/resume", { method: "POST", headers }))
    const authorization = `Bearer ${world.tokens.operate}`
    expect((await resume({ authorization })).status).toBe(200)
    expect((await resume({ authorization, origin: "https://evil.example" })).status).toBe(403)
  })

  it("gives every response a request id, the caller's own if it is acceptable", async () => {
    const { ask, tokens } = world
    for (const target of ["/overview", "/nothing", "/admin/v1/openapi.json"]) {
      const own = await ask(tokens.view, "GET", target, undefined, { "x-request-id": "a-caller.1" })
      expect(own.headers.get("x-request-id"), target).toBe("a-caller.1")
      expect(own.body.error?.request_id ?? "a-caller.1", target).toBe("a-caller.1")
      const made = await ask(tokens.view, "GET", target, undefined, { "x-request-id": "short" })
      expect(made.headers.get("x-request-id"), target).toMatch(/^req_/)
    }
  })

  it("responds to unknown paths, malformed input and defects in the envelope", async () => {
    const { tokens } = world
    for (const [method, target, code] of [
      ["GET", "/nothing", "not_found"],
      ["GET", "/jobs/job_x", "not_found"],
      ["GET", "/jobs/%zz", "not_found"],
      ["GET", "/jobs?limit=0", "invalid_request"],
      ["GET", "/jobs?limit=x", "invalid_request"],
      ["GET", "/jobs?limit=5&limit=6", "invalid_request"],
      ["GET", "/jobs?after=x", "invalid_request"],
      ["GET", "/jobs?status=new", "invalid_request"],
      ["GET", "/jobs?from=yesterday", "invalid_request"],
      ["GET", "/jobs?nothing=1", "invalid_request"],
      ["GET", "/audit?after=1.5", "invalid_request"],
      ["POST", "/types/nothing/pause", "not_found"],
      ["POST", "/switches/nothing/on", "not_found"],
      ["POST", "/keys/key_x/revoke", "not_found"],
      ["POST", "/schedules/nothing/pause", "not_found"],
      ["POST", "/schedules/nothing/run", "not_found"],
      ["POST", "/prices/nothing/activate", "not_found"],
      ["POST", "/projects/nothing/disable", "not_found"],
    ] as const) {
      const { body, headers } = await world.ask(tokens.operate, method, target)
      expect([target, body.error.code]).toEqual([target, code])
      expect(body.error.request_id).toBe(headers.get("x-request-id"))
      expect(body.error.request_id).toMatch(/^req_[0-9a-hjkmnp-tv-z]{26}$/)
    }
    expect((await world.ask(tokens.operate, "POST", "/projects/acme/limit", { concurrency: -1 })).status).toBe(400)
    expect((await world.ask(tokens.operate, "POST", "/projects/acme/limit", { concurrency: 1, more: 1 })).status).toBe(
      400,
    )
  })
})

describe("callers' data", () => {
  it("is in no response without the role content, and each look at it is in the audit log", async () => {
    const { ask, engine, tokens } = world
    const done = await engine.submitAndWait("echo", { text: canary })
    const failed = await engine.submitAndWait("echo", { text: `fail ${canary}` })
    expect([done.status, failed.status]).toEqual(["done", "failed"])
    for (const token of [tokens.view, tokens.operate])
      for (const [, { method, path }] of all)
        for (const id of [done.id, failed.id])
          for (const query of path === "/failures" ? ["", "?span=24h"] : [""]) {
            const { text } = await ask(token, method, `${idFor(path, id)}${query}`, {
              ...bodyFor(path),
              ...(path.startsWith("/bulk") && { dry_run: true }),
            })
            expect([path, text.includes(canary), /[?&]s=/.test(text)]).toEqual([path, false, false])
            expect(text).not.toContain(token)
          }

    const content = await ask(tokens.content, "GET", `/jobs/${failed.id}/content`)
    expect(content.body).toMatchObject({
      request: { text: `fail ${canary}` },
      attempts: [{ attempt: 1, message: expect.stringContaining(canary) }],
    })
    expect((await ask(tokens.content, "GET", `/jobs/${done.id}/content`)).body.output).toEqual({ said: canary })
    const messages = await ask(tokens.content, "GET", "/failures/messages")
    expect(messages.body.groups).toMatchObject([
      { error_code: "content_rejected", message: `cannot say fail ${canary}`, count: 1 },
    ])
    const { body } = await ask(tokens.view, "GET", "/audit")
    expect(body.changes.slice(0, 3)).toMatchObject([
      { actor: "carol", action: "failures.read-messages", subject: null },
      { actor: "carol", action: "job.read-content", subject: done.id },
      { actor: "carol", action: "job.read-content", subject: failed.id },
    ])
  })

  it("is in no response where the settings hide requests, and a refused look is not recorded", async () => {
    await using hiding = await openWorld("sqlite", { operatorSeesRequests: false })
    const { ask, engine, tokens } = hiding
    const { id } = await engine.submitAndWait("echo", { text: canary })
    const { body, status, text } = await ask(tokens.content, "GET", `/jobs/${id}/content`)
    expect([status, body.error.code, text.includes(canary)]).toEqual([403, "requests_hidden", false])
    expect((await ask(tokens.view, "GET", "/audit")).body.changes).toEqual([])
  })
})
