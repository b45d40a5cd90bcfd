import { builtInKinds } from "@kiln/core"
import { JobKind } from "@kiln/core/kinds"
import { openApiDocument } from "@kiln/http"
import { type JobRoute, jobRoute, nodeHandler } from "@kiln/http/mount"
import { Effect, Schema } from "effect"
import { describe, expect, it, vi } from "vitest"
import { Client } from "./support/Client.ts"
import { openEngine, progressSeen, summary } from "./support/MountedEngine.ts"
import { listen, publicUrl } from "./support/servers.ts"

const scopes = ["text_summary.create", "audio.create"]

const open = async (...routes: ReadonlyArray<JobRoute>) => {
  const mounted = await openEngine()
  const server = await listen(await nodeHandler(mounted.engine, { publicUrl, routes, pages: true }))
  const clientWith = async (...scopes: ReadonlyArray<string>) =>
    new Client(server.port, await mounted.createKey({ scopes }))
  return {
    clientWith,
    [Symbol.asyncDispose]: async () => {
      await server[Symbol.asyncDispose]()
      await mounted[Symbol.asyncDispose]()
    },
  }
}
const request = { long_text: "one two three four", max_words: 2 }

describe("a custom kind", () => {
  it("is created, polled and erased like the built-in ones, in snake case", async () => {
    await using service = await open(jobRoute(summary, { path: "/v1/summaries" }))
    const client = await service.clientWith("text_summary.create")
    const created = await client.ask("POST", "/v1/summaries", request, { "idempotency-key": "k" })
    const { id } = created.body
    expect(created.status).toBe(202)
    expect(created.body).toEqual({ id, object: "job", type: "text_summary", mode: "sandbox", status: "queued" })
    expect(created.headers.get("location")).toBe(`${publicUrl}/v1/summaries/${id}`)
    const again = await client.ask("POST", "/v1/summaries", request, { "idempotency-key": "k" })
    expect([again.body, again.headers.get("idempotency-replayed")]).toEqual([created.body, "true"])
    const other = await client.ask("POST", "/v1/summaries", { ...request, max_words: 3 }, { "idempotency-key": "k" })
    expect(other.body.error.code).toBe("idempotency_key_reused")
    const done = await client.finished(created.headers.get("location") ?? "")
    const { page_url } = done.output
    expect(done).toEqual({
      id,
      status: "done",
      output: { short_text: "one two", word_count: 2, page_url },
      billing: { status: "not_charged", currency: "usd", amount: "0", line_items: [] },
      warning_code: null,
      error_code: null,
    })
    const page = await fetch(client.local(page_url))
    expect([page.headers.get("content-type"), await page.text()]).toEqual(["text/html", "<p>one two</p>"])
    expect((await client.ask("DELETE", `/v1/summaries/${id}/data`)).status).toBe(204)
    expect((await client.ask("GET", `/v1/summaries/${id}`)).body).toMatchObject({ warning_code: "data_deleted" })
  })

  it("shows its progress while it runs", async () => {
    await using service = await open(jobRoute(summary, { path: "/v1/summaries" }))
    const client = await service.clientWith("text_summary.create")
    const long = { long_text: "wait for progress", max_words: 3 }
    const { id } = (await client.ask("POST", "/v1/summaries", long)).body
    await vi.waitFor(async () =>
      expect((await client.ask("GET", `/v1/summaries/${id}`)).body).toEqual({
        id,
        status: "processing",
        progress: { value: 0.5, message: "reading" },
        billing: { status: "not_charged", currency: "usd", amount: "0", line_items: [] },
        warning_code: null,
        error_code: null,
      }),
    )
    progressSeen.resolve()
    expect(await client.finished(`${publicUrl}/v1/summaries/${id}`)).not.toHaveProperty("progress")
  })

  it("tells why a job failed, if its code does, until the data is erased", async () => {
    await using service = await open(jobRoute(summary, { path: "/v1/summaries" }))
    const client = await service.clientWith(...scopes)
    const { id } = (await client.ask("POST", "/v1/summaries", { ...request, long_text: "unreadable" })).body
    const failed = {
      id,
      status: "failed",
      billing: { status: "not_charged", currency: "usd", amount: "0", line_items: [] },
      warning_code: null,
      error_code: "text_unreadable",
    }
    const error_message = "Send text in a language with spaces."
    expect(await client.finished(`${publicUrl}/v1/summaries/${id}`)).toEqual({ ...failed, error_message })
    expect((await client.ask("DELETE", `/v1/summaries/${id}/data`)).status).toBe(204)
    const erased = { ...failed, warning_code: "data_deleted" }
    expect((await client.ask("GET", `/v1/summaries/${id}`)).body).toEqual(erased)
    // The bodies of the built-in kinds have no such field.
    const speech = await client.ask("POST", "/v1/audio/speech", { input: "sandbox:fail:content_rejected" })
    expect(await client.finished(speech.headers.get("location") ?? "")).not.toHaveProperty("error_message")
  })

  it("is found only under its path, for keys with its scope", async () => {
    await using service = await open(jobRoute(summary, { path: "/v1/summaries" }))
    const client = await service.clientWith(...scopes)
    const { id: own } = (await client.ask("POST", "/v1/summaries", request)).body
    const { id: audio } = (await client.ask("POST", "/v1/audio/speech", { input: "x" })).body
    const statuses = [`/v1/summaries/${own}`, `/v1/jobs/${own}`, `/v1/summaries/${audio}`, `/v1/jobs/${audio}`].map(
      async (path) => (await client.ask("GET", path)).status,
    )
    expect(await Promise.all(statuses)).toEqual([200, 404, 404, 200])
    const speaker = await service.clientWith("audio.create")
    expect(await speaker.ask("POST", "/v1/summaries", request)).toMatchObject({
      status: 403,
      body: { error: { details: { required_scope: "text_summary.create" } } },
    })
    expect((await speaker.ask("GET", `/v1/summaries/${own}`)).status).toBe(403)
    expect((await (await service.clientWith(...scopes)).ask("GET", `/v1/summaries/${own}`)).status).toBe(404)
  })

  it("names every invalid field by its wire name", async () => {
    await using service = await open(jobRoute(summary, { path: "/v1/summaries" }))
    const client = await service.clientWith(...scopes)
    const wrong = await client.ask("POST", "/v1/summaries", { max_words: -1 })
    expect(wrong).toMatchObject({ status: 400, body: { error: { code: "invalid_request" } } })
    expect(wrong.body.error.details.errors.map(({ param, reason }: Record<string, string>) => [param, reason])).toEqual(
      [
        ["long_text", "required"],
        ["max_words", "type"],
      ],
    )
    // The inner spelling is no second name.
    expect((await client.ask("POST", "/v1/summaries", { longText: "x" })).status).toBe(400)
    expect((await client.ask("POST", "/v1/summaries", request, { "idempotency-key": "" })).status).toBe(400)
    expect((await client.ask("POST", "/v1/summaries", request, { "content-type": "text/plain" })).status).toBe(415)
    expect((await client.ask("PUT", "/v1/summaries")).headers.get("allow")).toBe("POST")
  })

  it("uses custom names for request, output and files", async () => {
    const names = { longText: "text", shortText: "summary", page: "html" }
    await using service = await open(jobRoute(summary, { path: "/v1/s", poll: "/v1/s/jobs/:id", names }))
    const client = await service.clientWith(...scopes)
    const created = await client.ask("POST", "/v1/s", { text: "one two", max_words: 1 })
    const { output } = await client.finished(created.headers.get("location") ?? "")
    expect(output).toEqual({ summary: "one", word_count: 1, html_url: expect.stringContaining("/v1/files/fil_") })
    const wrong = await client.ask("POST", "/v1/s", { text: "" })
    expect(wrong.body.error.param).toBe("text")
    expect((await client.ask("POST", "/v1/s", { long_text: "x" })).status).toBe(400)
  })

  it("is documented with the same headers and errors as the others", async () => {
    const routes = [jobRoute(summary, { path: "/v1/summaries" })]
    await using service = await open(...routes)
    const { body } = await (await service.clientWith()).ask("GET", "/openapi.json")
    const kinds = [...builtInKinds(), summary]
    expect(body).toEqual(JSON.parse(JSON.stringify(openApiDocument({ serverUrl: publicUrl, kinds, routes }))))
    const { components, paths } = body
    expect(Object.keys(paths)).toHaveLength(Object.keys(openApiDocument({ serverUrl: publicUrl }).paths).length + 5)
    const { post } = paths["/v1/summaries"]
    expect(post.operationId).toBe("createTextSummary")
    expect(Object.keys(post.responses)).toEqual(Object.keys(paths["/v1/audio/speech"].post.responses))
    expect(Object.keys(paths["/v1/summaries/{id}/data"])).toEqual(["delete"])
    const { properties, required } = components.schemas.CreateTextSummary
    expect([Object.keys(properties), required]).toEqual([["long_text", "max_words"], ["long_text"]])
    expect(components.schemas.TextSummaryJob.properties.type).toEqual({ type: "string", enum: ["text_summary"] })
    expect(Object.keys(components.schemas.TextSummaryOutput.properties)).toEqual([
      "short_text",
      "word_count",
      "page_url",
    ])
  })
})

it("a kind with an Effect Schema is documented by it", () => {
  const echo = JobKind({
    name: "echo",
    request: Schema.Struct({ someText: Schema.String, times: Schema.optionalKey(Schema.Int) }),
    run: () => Effect.die("never run here"),
  })
  const routes = [jobRoute(echo, { path: "/v1/echoes", names: { times: "count" } })]
  const { components, paths } = openApiDocument({ serverUrl: publicUrl, kinds: [echo], routes })
  expect(components.schemas["CreateEcho"]).toEqual({
    type: "object",
    properties: { some_text: { type: "string" }, count: expect.objectContaining({ type: "integer" }) },
    required: ["some_text"],
    additionalProperties: false,
  })
  // An engine without the built-in kinds does not offer them.
  expect(Object.keys(paths).filter((path) => /speech|generations|transcriptions|turns/.test(path))).toEqual([])
})

const useless: ReadonlyArray<readonly [string, JobRoute, RegExp]> = [
  ["an unknown kind", jobRoute({ name: "nothing" }, { path: "/v1/x" }), /does not have this kind/],
  ["a built-in kind", jobRoute({ name: "transcription" }, { path: "/v1/x" }), /already has a route/],
  ["an invalid path", jobRoute(summary, { path: "v1/x" }), /its path/],
  ["a path with a placeholder", jobRoute(summary, { path: "/v1/:x" }), /its path/],
  [
    "a poll without an id",
    jobRoute(summary, { path: "/v1/x", poll: "/v1/x" }),
    /poll path of its family must be such a path/,
  ],
  ["the poll of audio jobs", jobRoute(summary, { path: "/v1/x", poll: "/v1/jobs/:id" }), /audio\.create/],
  ["a path that is taken", jobRoute(summary, { path: "/v1/audio/speech" }), /duplicate route/],
  ["one name for two", jobRoute(summary, { path: "/v1/x", names: { a: "b", c: "b" } }), /the same name/],
]

it.each(useless)("a route of %s is refused", async (_, route, problem) => {
  await using mounted = await openEngine()
  await expect(nodeHandler(mounted.engine, { publicUrl, routes: [route] })).rejects.toMatchObject({
    setting: "routes",
    problem: expect.stringMatching(problem),
  })
})
