import { createApiKey } from "@kiln/http/mount"
import { afterAll, beforeAll, expect, it, vi } from "vitest"
import * as route from "./app/api/kiln/[...path]/route.ts"
import { kiln } from "./lib/kiln.ts"

// Calls the route's exports by method, like Next.js, which is not installed here.

const origin = "http://127.0.0.1:3000"
let authorization = ""
beforeAll(async () => {
  const { engine } = await kiln()
  const { key } = await createApiKey(engine, { scopes: ["audio.create", "headline.create"] })
  authorization = `Bearer ${key}`
})
afterAll(async () => (await kiln()).engine.stop())

const { dynamic, runtime, ...methods } = route
type Method = keyof typeof methods
const send = (method: Method, url: string, init: RequestInit = {}) =>
  methods[method](new Request(url, { ...init, method }))
const ask = async (method: Method, url: string, json?: unknown) => {
  const headers = { authorization, "content-type": "application/json", "idempotency-key": crypto.randomUUID() }
  const response = await send(method, url, { headers, body: json === undefined ? null : JSON.stringify(json) })
  const text = await response.text()
  return { status: response.status, headers: response.headers, body: text === "" ? undefined : JSON.parse(text) }
}
/** Creates a job and polls it until it is finished. */
const run = async (path: string, request: unknown) => {
  const created = await ask("POST", `${origin}/api/kiln${path}`, request)
  expect(created).toMatchObject({ status: 202, body: { mode: "sandbox", status: "queued" } })
  const location = created.headers.get("location") ?? ""
  await (await kiln()).engine.wait(created.body.id)
  return { location, job: (await ask("GET", location)).body }
}

it("exports what Next.js looks for", () => {
  expect(Object.keys(methods).toSorted()).toEqual(["DELETE", "GET", "HEAD", "OPTIONS", "POST", "PUT"])
  expect([runtime, dynamic]).toEqual(["nodejs", "force-dynamic"])
})

it("accepts, creates and serves files", async () => {
  const spoken = await run("/v1/audio/speech", { input: "Hello from a route" })
  const url = spoken.job.output.audio_url
  expect(url).toMatch(/^http:\/\/127\.0\.0\.1:3000\/api\/kiln\/v1\/files\/fil_/)
  const speech = await (await send("GET", url)).arrayBuffer()
  const head = await send("HEAD", url)
  expect([head.status, head.headers.get("content-length")]).toEqual([200, String(speech.byteLength)])
  expect((await send("OPTIONS", url)).headers.get("access-control-allow-methods")).toBe("GET, HEAD")

  const upload = await ask("POST", `${origin}/api/kiln/v1/audio/uploads`, { format: "mp3", declared_seconds: 2 })
  const put = { headers: { "content-type": "audio/mpeg" }, body: speech }
  expect((await send("PUT", upload.body.upload_url, put)).status).toBe(204)
  const heard = await run("/v1/audio/transcriptions", { upload_id: upload.body.id })
  expect(heard.job.output).toEqual({ transcript: "Sandbox transcript of an mp3 file of 2.0 seconds." })

  expect((await ask("DELETE", `${spoken.location}/data`)).status).toBe(204)
  expect((await send("GET", url)).status).toBe(410)
})

it("offers a custom kind of the app, in snake case", async () => {
  const articleText = "Kilns are ovens for clay. The hot air rises."
  const { job, location } = await run("/v1/headlines", { article_text: articleText, max_words: 3 })
  expect(location).toMatch(/^http:\/\/127\.0\.0\.1:3000\/api\/kiln\/v1\/headlines\/job_/)
  expect(job).toMatchObject({ status: "done", output: { headline: "Kilns are ovens", word_count: 3 } })
  const wrong = await ask("POST", `${origin}/api/kiln/v1/headlines`, { article_text: "" })
  expect([wrong.status, wrong.body.error.param]).toEqual([400, "article_text"])
})

it("has a single engine, however often its modules are loaded", async () => {
  const before = await kiln()
  vi.resetModules()
  const again = await import("./lib/kiln.ts")
  expect(again.kiln).not.toBe(kiln)
  expect(await again.kiln()).toBe(before)
})

it("can be started again after a failure", async () => {
  const before = globalThis as { kilnOfThisProcess?: unknown }
  const open = before.kilnOfThisProcess
  delete before.kilnOfThisProcess
  vi.stubEnv("PUBLIC_URL", "nowhere")
  await expect(kiln()).rejects.toMatchObject({ _tag: "HttpSettingInvalid", setting: "publicUrl" })
  vi.unstubAllEnvs()
  const { engine } = await kiln()
  await engine.stop()
  before.kilnOfThisProcess = open
})
