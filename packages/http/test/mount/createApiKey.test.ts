import { describe, expect, it } from "vitest"
import { postgresStore } from "@kiln/adapter-postgres"
import { builtInKinds, createEngine } from "@kiln/core"
import { embeddedContext } from "@kiln/core/effect"
import { KeyDirectory } from "@kiln/core/ports"
import { createApiKey, jobRoute, nodeHandler } from "@kiln/http/mount"
import { freshDatabase } from "@kiln/postgres-lab"
import { memoryBlobs, memoryStore } from "@kiln/testing"
import { Effect } from "effect"
import { Client } from "./support/Client.ts"
import { openEngine, summary } from "./support/MountedEngine.ts"
import { listen, publicUrl } from "./support/servers.ts"

const open = async () => {
  const { engine } = await openEngine()
  const routes = [jobRoute(summary, { path: "/v1/summaries" })]
  const server = await listen(await nodeHandler(engine, { publicUrl, routes }))
  return {
    engine,
    clientWith: (key: string) => new Client(server.port, key),
    keys: <A>(use: (directory: KeyDirectory["Service"]) => Effect.Effect<A, unknown>) =>
      Effect.runPromise(Effect.provide(Effect.flatMap(KeyDirectory, use), embeddedContext(engine))),
    [Symbol.asyncDispose]: async () => {
      await server[Symbol.asyncDispose]()
      await engine.stop()
    },
  }
}

describe("a key created by a program", () => {
  it("works immediately, and its jobs belong to the project with that name in `submit`", async () => {
    await using service = await open()
    const { key, keyId } = await createApiKey(service.engine, { project: "acme", scopes: ["audio.create"] })
    expect([key, keyId]).toEqual([expect.stringMatching(/^kiln_test_\w{49}$/), expect.stringMatching(/^key_\w{26}$/)])
    const client = service.clientWith(key)
    const { body } = await client.ask("POST", "/v1/audio/speech", { input: "x" })
    expect(body).toMatchObject({ mode: "sandbox" })
    expect((await service.engine.wait(body.id, { project: "acme" })).status).toBe("done")
    await expect(service.engine.get(body.id, { project: "other" })).rejects.toMatchObject({ code: "job_not_found" })
    const submitted = await service.engine.submit("speech_synthesis", { input: "x" }, { project: "acme" })
    const { jobs } = await service.engine.operator.list({ project: "acme" })
    expect(new Set(jobs.map(({ id }) => id))).toEqual(new Set([body.id, submitted.id]))
    // One project, but not one key: over HTTP a job is its key's.
    expect((await client.ask("GET", `/v1/jobs/${submitted.id}`)).status).toBe(404)
  })

  it("belongs to `embedded` by default, or to an existing project by its id", async () => {
    await using service = await open()
    await service.keys((keys) => keys.createProject({ id: "prj_there", name: "Somebody's" }))
    const scopes = ["images.create"]
    const made = await Promise.all([
      createApiKey(service.engine, { scopes }),
      createApiKey(service.engine, { scopes, project: "embedded" }),
      createApiKey(service.engine, { scopes, project: "prj_there", mode: "live", name: "of the web site" }),
    ])
    expect(new Set(made.map(({ key }) => key)).size).toBe(3)
    const records = await service.keys((keys) => keys.listKeys)
    const shown = made.map(({ keyId }) => {
      const { mode, name, projectId } = records.find(({ id }) => id === keyId)!
      return { mode, name, projectId }
    })
    expect(shown).toEqual([
      { mode: "test", name: null, projectId: "prj_embedded" },
      { mode: "test", name: null, projectId: "prj_embedded" },
      { mode: "live", name: "of the web site", projectId: "prj_there" },
    ])
    expect((await service.keys((keys) => keys.listProjects)).map(({ name }) => name).toSorted()).toEqual([
      "Somebody's",
      "embedded",
    ])
  })

  it("creates live jobs if requested, and only with their prerequisites", async () => {
    await using service = await open()
    const { key } = await createApiKey(service.engine, { mode: "live", scopes: ["audio.create"] })
    expect(key).toMatch(/^kiln_live_/)
    const refused = await service.clientWith(key).ask("POST", "/v1/audio/speech", { input: "x" })
    expect(refused).toMatchObject({ status: 403, body: { error: { code: "live_not_active" } } })
  })

  it("has the permissions of its scopes, including those of custom kinds", async () => {
    await using service = await open()
    const requests = [
      ["/v1/audio/speech", { input: "x" }, "audio.create"],
      ["/v1/images/generations", { prompt: "x" }, "images.create"],
      ["/v1/summaries", { long_text: "x" }, "text_summary.create"],
    ] as const
    for (const [, , scope] of requests) {
      const { key } = await createApiKey(service.engine, { scopes: [scope] })
      const client = service.clientWith(key)
      for (const [path, request, needed] of requests) {
        const { body, status } = await client.ask("POST", path, request)
        const outcome = status === 202 ? "created" : [status, body.error.code, body.error.details.required_scope]
        expect(outcome, `${scope} at ${path}`).toEqual(
          needed === scope ? "created" : [403, "insufficient_scope", needed],
        )
      }
    }
  })

  it("is refused as soon as it expires, even if it was in use", async () => {
    await using service = await open()
    const expiresAt = new Date(Date.now() + 1_500)
    const { key } = await createApiKey(service.engine, { scopes: ["audio.create"], expiresAt })
    const client = service.clientWith(key)
    expect((await client.ask("GET", "/v1/jobs/x")).status).toBe(404)
    // When the last request was sent that the key still opened.
    const polled = async (lastAcceptedAt: number): Promise<{ status: number; lastAcceptedAt: number }> => {
      const sentAt = Date.now()
      const { status } = await client.ask("GET", "/v1/jobs/x")
      if (status !== 404) return { status, lastAcceptedAt }
      await new Promise((resolve) => setTimeout(resolve, 20))
      return polled(sentAt)
    }
    const { lastAcceptedAt, status } = await polled(0)
    expect(status).toBe(401)
    expect(Date.now()).toBeGreaterThanOrEqual(expiresAt.getTime())
    expect(lastAcceptedAt, "nothing keeps it for a while after that").toBeLessThan(expiresAt.getTime())
    const before = await createApiKey(service.engine, { scopes: ["audio.create"], expiresAt: new Date(0) })
    expect(await service.clientWith(before.key).ask("GET", "/v1/jobs/x")).toMatchObject({
      status: 401,
      body: { error: { code: "invalid_api_key" } },
    })
  })
})

it("many concurrent calls create one project, in one process and in two", async () => {
  await using database = await freshDatabase()
  const open = () =>
    createEngine({
      store: postgresStore({ url: database.url }),
      blobs: memoryBlobs(),
      kinds: builtInKinds(),
      worker: false,
      log: false,
    })
  await using one = await open()
  await using other = await open()
  const keys = Array.from({ length: 20 }, (_, n) =>
    createApiKey(n % 2 ? one : other, { project: `p${n % 4}`, scopes: ["audio.create"] }),
  )
  expect(new Set((await Promise.all(keys)).map(({ keyId }) => keyId)).size).toBe(20)
})

describe("no key is created", () => {
  it("is rejected for an invalid project name, or one used by another project", async () => {
    await using service = await open()
    await service.keys((keys) => keys.createProject({ id: "prj_1", name: "acme" }))
    const scopes = ["audio.create"]
    await expect(createApiKey(service.engine, { project: "a b", scopes })).rejects.toThrow(TypeError)
    await expect(createApiKey(service.engine, { project: "acme", scopes })).rejects.toThrow(
      "the project name acme is already used",
    )
    expect(await service.keys((keys) => keys.listKeys)).toEqual([])
  })

  it("is rejected on a stopped engine, and on anything that is not an engine", async () => {
    const engine = await createEngine({
      store: memoryStore(),
      blobs: memoryBlobs(),
      kinds: builtInKinds(),
      worker: false,
    })
    await engine.stop()
    const scopes = ["audio.create"]
    await expect(createApiKey(engine, { scopes })).rejects.toMatchObject({ name: "AbortError" })
    await expect(createApiKey({ ...engine }, { scopes })).rejects.toThrow(
      "expected an engine returned by createEngine()",
    )
  })
})
