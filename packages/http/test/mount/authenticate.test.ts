import { describe, expect, it } from "vitest"
import { type Caller, fetchHandler } from "@kiln/http/mount"
import { openEngine } from "./support/MountedEngine.ts"
import { publicUrl } from "./support/servers.ts"

/** A program with its own users, identified by a session cookie. */
const users: Readonly<Record<string, Caller>> = {
  ann: { projectId: "team-1", keyId: "ann", mode: "sandbox", scopes: ["audio.create", "images.create"] },
  annLive: { projectId: "team-1", keyId: "ann", mode: "live", scopes: ["audio.create"] },
  bob: { projectId: "team-1", keyId: "bob", mode: "sandbox", scopes: ["audio.create"] },
  // A team and a user whose concatenated names equal those of another pair.
  eve: { projectId: "team-1_ann", mode: "sandbox", scopes: ["audio.create"] },
  mallory: { projectId: "team-2", keyId: "ann", mode: "sandbox", scopes: ["audio.create"] },
  everybody: { projectId: "team-1", mode: "sandbox", scopes: ["audio.create"] },
}

const open = async (authenticate: (request: Request) => Promise<Caller | undefined> | Caller | undefined) => {
  const mounted = await openEngine()
  const handler = await fetchHandler(mounted.engine, { publicUrl, authenticate })
  const ask = async (method: string, path: string, session: string, json?: unknown) => {
    const response = await handler(
      new Request(publicUrl + path, {
        method,
        headers: { cookie: session, "content-type": "application/json", "idempotency-key": "one-key-for-all" },
        ...(json !== undefined && { body: JSON.stringify(json) }),
      }),
    )
    const text = await response.text()
    return { status: response.status, body: text === "" ? undefined : JSON.parse(text), headers: response.headers }
  }
  return { ...mounted, ask, handler, [Symbol.asyncDispose]: () => mounted[Symbol.asyncDispose]() }
}
const bySession = (request: Request) => users[request.headers.get("cookie") ?? ""]

describe("callers authenticated by the program", () => {
  it("have separate jobs, which no other caller finds, repeats or erases", async () => {
    await using service = await open(bySession)
    const jobs = new Map<string, string>()
    for (const session of Object.keys(users).filter((name) => name !== "annLive")) {
      const created = await service.ask("POST", "/v1/audio/speech", session, { input: `of ${session}` })
      expect([created.status, created.headers.get("idempotency-replayed")], session).toEqual([202, null])
      jobs.set(session, created.body.id)
    }
    const pairs = [...jobs].flatMap(([owner, id]) => Object.keys(users).map((session) => ({ id, owner, session })))
    for (const { id, owner, session } of pairs) {
      const found = await service.ask("GET", `/v1/jobs/${id}`, session)
      expect(found.status, `${session} asks for the job of ${owner}`).toBe(session === owner ? 200 : 404)
    }
    for (const { id, session } of pairs.filter(({ owner, session }) => owner !== session))
      expect((await service.ask("DELETE", `/v1/jobs/${id}/data`, session)).status).toBe(404)
  })

  it("share the jobs that the program submits for their project if they have no key of their own", async () => {
    await using service = await open(bySession)
    const { id } = await service.engine.submit("speech_synthesis", { input: "x" }, { project: "team-1" })
    expect((await service.ask("GET", `/v1/jobs/${id}`, "everybody")).status).toBe(200)
    expect((await service.ask("GET", `/v1/jobs/${id}`, "ann")).status).toBe(404)
  })

  it("are limited to their scopes and mode", async () => {
    await using service = await open(bySession)
    const image = await service.ask("POST", "/v1/images/generations", "bob", { prompt: "x" })
    expect(image).toMatchObject({ status: 403, body: { error: { code: "insufficient_scope" } } })
    const live = await service.ask("POST", "/v1/audio/speech", "annLive", { input: "x" })
    expect(live).toMatchObject({ status: 403, body: { error: { code: "live_not_active" } } })
  })

  it("that are unknown get 401, whatever API key they send", async () => {
    await using service = await open(bySession)
    expect(await service.ask("GET", "/v1/jobs/x", "nobody")).toMatchObject({
      status: 401,
      body: {
        error: {
          code: "missing_api_key",
          message: "This request is not authenticated. Send the credentials that this service expects.",
        },
      },
    })
    const headers = { authorization: `Bearer ${await service.createKey()}` }
    const response = await service.handler(new Request(`${publicUrl}/v1/jobs/x`, { headers }))
    expect([response.status, (await response.json()).error.code]).toEqual([401, "invalid_api_key"])
  })
})

const wrong: ReadonlyArray<readonly [string, object]> = [
  ["no project", { keyId: "x", mode: "live", scopes: [] }],
  ["an empty project", { projectId: "", mode: "live", scopes: [] }],
  ["a project with a colon", { projectId: "a:b", mode: "live", scopes: [] }],
  ["a key with a colon", { projectId: "a", keyId: "b:c", mode: "live", scopes: [] }],
  ["an empty key", { projectId: "a", keyId: "", mode: "live", scopes: [] }],
  ["a key of a number", { projectId: "a", keyId: 7, mode: "live", scopes: [] }],
  ["no mode", { projectId: "a", scopes: [] }],
  ["scopes as a text", { projectId: "a", mode: "live", scopes: "audio.create" }],
]

it.each(wrong)("a caller with %s is a defect that is logged", async (_, caller) => {
  await using service = await open(() => caller as Caller)
  expect(await service.ask("GET", "/v1/jobs/x", "")).toMatchObject({
    status: 500,
    body: { error: { code: "internal_error" } },
  })
  expect(service.logged.join("\n")).toMatch(/authenticate: (projectId|keyId|mode|scopes) must be/)
})

it("an error thrown by authenticate is 503 and is logged", async () => {
  await using service = await open(async () => {
    throw new Error("sessions are away")
  })
  const answer = await service.ask("GET", "/v1/jobs/x", "")
  expect(answer).toMatchObject({ status: 503, body: { error: { code: "service_unavailable" } } })
  expect(service.logged.join("\n")).toContain("sessions are away")
  expect(JSON.stringify(answer.body)).not.toContain("sessions")
})
