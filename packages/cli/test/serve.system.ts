import { execFile } from "node:child_process"
import { once } from "node:events"
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { createServer } from "node:net"
import { join } from "node:path"
import { promisify } from "node:util"
import * as Effect from "effect/Effect"
import { describe, expect, it } from "vitest"
import { SqliteStores } from "@kiln/adapter-sqlite"
import { parseApiKey } from "@kiln/core/domain"
import { curlLines } from "../src/serve/banner.ts"
import { Api } from "./support/Api.ts"
import { writeSchedule } from "./support/scheduledRecords.ts"
import { KilnProcess, run, runJson, serve, temporaryDirectory } from "@kiln/service-lab"

/** A port that was free a moment ago. */
const freePort = async (): Promise<string> => {
  await using server = createServer().listen(0, "127.0.0.1")
  await once(server, "listening")
  const address = server.address()
  return String(typeof address === "object" ? address?.port : address)
}

const shell = promisify(execFile)

describe("the first start", () => {
  it("shows a key once, and commands that work when pasted", async () => {
    using data = temporaryDirectory()
    const env = { KILN_DATA_DIR: join(data.path, "data"), KILN_FIRST_KEY: "print", PORT: "0" }
    let key: string
    {
      await using kiln = new KilnProcess(["serve"], env)
      const [, url = ""] = await kiln.says(/listening at (http:\/\/127\.0\.0\.1:\d+)\n[\s\S]*JOB_ID -H .*\n/)
      key = /^ +(kiln_test_\w+)$/m.exec(kiln.stdout)?.[1] ?? ""
      expect(parseApiKey(key)).toEqual({ mode: "test" })
      expect(kiln.stdout).toContain(`${url}/docs`)
      // The log is another stream and does not contain the key.
      expect(kiln.stderr).not.toContain("kiln_test_")

      expect(kiln.stdout).toMatch(
        /^ {2}export KILN_URL=.*\n {2}npx -y pnpm@12 kiln try speak 'Hello.*' -o hello\.mp3$/m,
      )
      expect(kiln.stdout).toContain(`  export KILN_URL=${url} KILN_API_KEY=${key}\n`)
      const [, create = "", read = ""] = /^(curl [^]*?)\n\n(curl .*)$/m.exec(kiln.stdout) ?? []
      expect(create.split("\n").every((line) => line.length <= 120)).toBe(true)
      const ids: Array<string> = []
      for (const sh of ["bash", "sh"]) {
        const { id } = JSON.parse((await shell(sh, ["-c", create])).stdout)
        expect(id).toMatch(/^job_/)
        expect(JSON.parse((await shell(sh, ["-c", read.replace("JOB_ID", id)])).stdout)).toMatchObject({
          id,
          status: expect.stringMatching(/^(queued|processing|done)$/),
        })
        ids.push(id)
      }
      // The idempotency key of the pasted command returns the same job.
      expect(new Set(ids).size).toBe(1)
      kiln.kill("SIGTERM")
      expect((await kiln.ended()).exit).toBe(0)
      expect(kiln.stderr).not.toContain(key)
    }
    for (const file of ["kiln.db"]) expect(readFileSync(join(env.KILN_DATA_DIR, file), "latin1")).not.toContain(key)

    await using again = new KilnProcess(["serve"], env)
    const [, url = ""] = await again.says(/listening at (\S+)\n.*\n.*\/docs\n/)
    expect(again.stdout).toBe(`kiln is listening at ${url}\nplayground: ${url}/\ndocumentation: ${url}/docs\n`)
    expect((await new Api(url, key).speak("The key of the first start still works.")).status).toBe(202)
  })

  it("the README shows the banner's commands", () => {
    const readme = readFileSync(join(import.meta.dirname, "../../../README.md"), "utf8")
    const target = { url: "http://127.0.0.1:8787", key: "$KEY" }
    for (const line of curlLines(target)) expect(readme.split("\n")).toContain(line)
  })

  it("is quiet with KILN_FIRST_KEY=off, and prints one JSON document with --json", async () => {
    using data = temporaryDirectory()
    const env = { KILN_DATA_DIR: data.path }
    {
      await using kiln = await serve({ ...env, KILN_FIRST_KEY: "off", KILN_PAGES: "off" })
      expect(kiln.listening).toEqual({ url: expect.stringMatching(/^http:/), docs_url: null, first_key: null })
      expect(await runJson(["key", "list"], env)).toEqual({ keys: [] })
    }
    await using kiln = await serve(env)
    expect(JSON.parse(kiln.stdout)).toEqual({
      url: kiln.listening.url,
      docs_url: `${kiln.listening.url}/docs`,
      first_key: {
        key: expect.stringMatching(/^kiln_test_/),
        key_id: expect.stringMatching(/^key_/),
        project_id: expect.stringMatching(/^prj_/),
        mode: "test",
        scopes: ["audio.create", "images.create"],
      },
    })
    const projects = await runJson(["project", "list"], env)
    expect(projects).toMatchObject({
      projects: [{ name: "default", project_id: kiln.listening.first_key?.project_id }],
    })
  })
})

describe("a start on a store with projects of its own", () => {
  it("gives the first key to the project `default` if it exists without keys", async () => {
    using data = temporaryDirectory()
    const env = { KILN_DATA_DIR: data.path }
    const { project_id } = await runJson(["project", "create", "default"], env)
    await using kiln = await serve(env)
    expect(kiln.listening.first_key?.project_id).toBe(project_id)
    expect((await new Api(kiln.listening.url, kiln.listening.first_key?.key ?? "").speak("Yours.")).status).toBe(202)
  })
})

describe("a start that fails", () => {
  it("says in one line that the port is in use, and does not use up the first key", async () => {
    using data = temporaryDirectory()
    const other = createServer().listen(0, "127.0.0.1")
    await once(other, "listening")
    const address = other.address()
    const port = typeof address === "object" ? address?.port : undefined
    const ended = await run(["serve"], { KILN_DATA_DIR: data.path, PORT: String(port) })
    expect(ended).toEqual({
      exit: 1,
      stdout: "",
      stderr: `kiln: 127.0.0.1:${port} is in use by another process: stop that one, or set PORT to another port\n`,
    })
    const management = await run(["serve"], { KILN_DATA_DIR: data.path, PORT: "0", KILN_MANAGEMENT_PORT: String(port) })
    expect(management).toMatchObject({
      exit: 1,
      stdout: "",
      stderr: expect.stringMatching(/^kiln: .*KILN_MANAGEMENT_PORT.*\n$/),
    })
    other.close()
    await using kiln = await serve({ KILN_DATA_DIR: data.path })
    expect(kiln.listening.first_key).not.toBeNull()
  })

  it("says in one line that an address does not belong to this machine", async () => {
    using data = temporaryDirectory()
    const ended = await run(["serve"], { KILN_DATA_DIR: data.path, PORT: "0", HOST: "192.0.2.1" })
    expect(ended).toEqual({
      exit: 1,
      stdout: "",
      stderr: "kiln: 192.0.2.1 is not an address of this machine: set HOST to one that is\n",
    })
  })

  it.each(["0.0.0.0", "::", "::1"])("warns that HOST=%s serves others whose URLs would not work", async (HOST) => {
    using data = temporaryDirectory()
    const listening = { KILN_DATA_DIR: data.path, HOST }
    {
      await using kiln = await serve(listening)
      await kiln.says(/PUBLIC_URL is not set, so upload and file URLs begin with http:\/\/127\.0\.0\.1:\d+,/, "stderr")
    }
    await using told = await serve({ ...listening, PUBLIC_URL: "https://kiln.example" })
    expect(told.stderr).not.toContain("PUBLIC_URL")
  })

  it("says in one line that the data directory cannot be written or the database cannot be opened", async () => {
    using data = temporaryDirectory()
    writeFileSync(join(data.path, "file"), "in the way")
    for (const command of [["serve"], ["key", "list", "--init"]]) {
      const ended = await run(command, { KILN_DATA_DIR: join(data.path, "file/data"), PORT: "0" })
      expect(ended).toMatchObject({
        exit: 1,
        stdout: "",
        stderr: expect.stringMatching(/^kiln: cannot write to the data directory .*KILN_DATA_DIR.*\n$/),
      })
    }
    writeFileSync(join(data.path, "kiln.db"), "no database, but long enough to be looked at closely ".repeat(100))
    const ended = await run(["serve"], { KILN_DATA_DIR: data.path, PORT: "0" })
    expect(ended).toMatchObject({
      exit: 1,
      stdout: "",
      stderr: expect.stringMatching(/^kiln: cannot open the database .*\n$/),
    })
  })

  it("says in one line that the system creates no directory there", async () => {
    using data = temporaryDirectory()
    const places = [
      [{ KILN_DATA_DIR: "/proc/kiln/data" }, /^kiln: cannot write to the data directory .*KILN_DATA_DIR.*\n$/],
      [{ KILN_DATA_DIR: data.path, KILN_BLOBS: "file:/proc/kiln" }, /^kiln: KILN_BLOBS: .*mkdir '\/proc\/kiln'\n$/],
    ] as const
    for (const [place, message] of places)
      expect(await run(["serve"], { ...place, PORT: "0" })).toMatchObject({
        exit: 1,
        stdout: "",
        stderr: expect.stringMatching(message),
      })
    const backup = await run(["backup", "/proc/kiln"], { KILN_DATA_DIR: data.path, KILN_BLOBS: `file:${data.path}` })
    expect(backup).toMatchObject({ exit: 1, stderr: expect.stringMatching(/^kiln: .*mkdir '\/proc\/kiln'.*\n$/) })
  })

  it.each([
    ["KILN_CONFIG", "export const providers = {}", "no default export"],
    ["KILN_CONFIG", "export default { providers: { speech: {}, video: {} }, voice: {} }", "providers.speech must be"],
    [
      "KILN_CONFIG",
      "export default { engine: { drainMs: '5', upload: { maxByte: 1 } } }",
      "engine.drainMs must be a non-negative number",
    ],
    [
      "KILN_CONFIG",
      "export default { engine: { leaseDurationMs: 100 } }",
      "engine.leaseDurationMs must be at least 2000",
    ],
    ["KILN_CONFIG", "export default {", "cannot load"],
    ["KILN_BLOBS", "export default {}", "must be an unstorage instance"],
  ])("explains what is wrong with the module of %s: %s", async (setting, text, message) => {
    using data = temporaryDirectory()
    const path = join(data.path, "module.mjs")
    writeFileSync(path, text)
    const ended = await run(["serve"], { KILN_DATA_DIR: data.path, PORT: "0", [setting]: path })
    expect({ exit: ended.exit, stdout: ended.stdout }).toEqual({ exit: 2, stdout: "" })
    expect(ended.stderr).toMatch(new RegExp(`^kiln: ${setting}: `))
    expect(ended.stderr).toContain(message)
  })

  it("exits with 1 after an unhandled failure", async () => {
    using data = temporaryDirectory()
    const path = join(data.path, "stray.mjs")
    writeFileSync(path, `export default {}; setTimeout(() => void Promise.reject(new Error("stray")), 300)`)
    await using kiln = new KilnProcess(["serve"], { KILN_DATA_DIR: data.path, PORT: "0", KILN_CONFIG: path })
    const ended = await kiln.ended()
    expect(ended.exit).toBe(1)
    expect(ended.stderr).toMatch(/^kiln: stopping after an unhandled failure: Error: stray/m)
  })
})

describe("a running server", () => {
  it("serves metrics on loopback", async () => {
    using data = temporaryDirectory()
    const port = await freePort()
    await using kiln = await serve({ KILN_DATA_DIR: data.path, KILN_MANAGEMENT_PORT: port, KILN_CONCURRENCY: "3" })
    await kiln.says(/metrics are served at/, "stderr")
    const response = await fetch(`http://127.0.0.1:${port}/metrics`)
    expect(response.headers.get("content-type")).toContain("text/plain; version=0.0.4")
    const text = await response.text()
    for (const line of ["kiln_worker_concurrency 3", "kiln_worker_jobs_running 0", "kiln_ready 1"])
      expect(text.split("\n")).toContain(line)
    expect(Number(/^process_resident_memory_bytes (\d+)$/m.exec(text)?.[1])).toBeGreaterThan(1e7)
    expect((await fetch(`http://127.0.0.1:${port}/nothing`)).status).toBe(404)
  })

  it("serves the operator's page on the management port: figures of /metrics, the doctor's findings, changes with a token", async () => {
    using data = temporaryDirectory()
    const port = await freePort()
    const env = { KILN_DATA_DIR: data.path }
    await using kiln = await serve({ ...env, KILN_MANAGEMENT_PORT: port })
    await kiln.says(/the operator's page is at/, "stderr")
    const base = `http://127.0.0.1:${port}`
    const page = await fetch(`${base}/`)
    expect([page.status, page.headers.get("content-type")]).toEqual([200, "text/html; charset=utf-8"])

    // Without a token, this machine may view and change nothing.
    const view = async (path: string) => (await fetch(`${base}/admin/v1${path}`)).json()
    expect(await view("/session")).toMatchObject({ actor: "local viewer", roles: ["view"] })
    const change = async (path: string, token?: string) => {
      const headers = { "content-type": "application/json", ...(token && { authorization: `Bearer ${token}` }) }
      return fetch(`${base}/admin/v1${path}`, { method: "POST", headers, body: "{}" })
    }
    expect((await change("/types/speech_synthesis/pause")).status).toBe(403)

    const { token } = await runJson(["token", "create", "--name", "alice", "--role", "operate"], env)
    expect((await change("/types/speech_synthesis/pause", token)).status).toBe(200)
    const { key } = await runJson(
      ["key", "create", "--project", "default", "--mode", "test", "--scope", "audio.create"],
      env,
    )
    const api = new Api(kiln.listening.url, key)
    for (const text of ["one", "two", "three"]) await api.createSpeech(text)
    const queued = async () =>
      (await view("/overview")).queues.find(({ type }: { readonly type: string }) => type === "speech_synthesis")
    await expect.poll(async () => (await queued())?.ready, { timeout: 30_000 }).toBe(3)
    expect(await queued()).toMatchObject({ mode: "sandbox", paused: true, held_back: [{ reason: "kind_paused" }] })
    await expect
      .poll(async () => (await fetch(`${base}/metrics`)).text(), { timeout: 30_000, interval: 500 })
      .toContain('kiln_queue_jobs{kind="speech_synthesis",mode="sandbox",state="ready"} 3')
    await expect
      .poll(async () => (await view("/overview")).findings, { timeout: 60_000, interval: 500 })
      .toContainEqual(expect.objectContaining({ check: "queue" }))

    const { changes } = await runJson(["audit", "list"], env)
    expect(changes).toContainEqual(
      expect.objectContaining({ actor: "alice", action: "queue.pause", subject: "speech_synthesis" }),
    )
    expect((await change("/types/speech_synthesis/resume", token)).status).toBe(200)
    await expect.poll(async () => (await queued())?.ready ?? 0, { timeout: 30_000 }).toBe(0)
  })

  it("applies commands run beside it: live jobs of the rehearsal provider are charged", async () => {
    using data = temporaryDirectory()
    const env = { KILN_DATA_DIR: data.path }
    await using kiln = await serve({ ...env, KILN_PROVIDER: "sandbox" })
    expect(kiln.stderr).toMatch(/level=WARN .*KILN_PROVIDER=sandbox: .*charged/)
    const flags = ["--project", "default", "--mode", "live", "--scope", "audio.create"]
    const { key, key_id } = await runJson(["key", "create", ...flags], env)
    const api = new Api(kiln.listening.url, key)
    const refused = await api.speak("sandbox:fail:internal_error")
    expect([refused.status, (await refused.json()).error.details.missing]).toEqual([
      403,
      ["price:svc-audio", "switch:ai", "switch:audio"],
    ])
    await runJson(["price", "set", "svc-audio", "--input-character", "0.01"], env)
    await runJson(["price", "activate", "svc-audio"], env)
    for (const name of ["ai", "audio"]) await runJson(["switch", "on", name], env)
    // Steering is for test keys: here it is ordinary text.
    const job = await api.finished(await api.createSpeech("sandbox:fail:internal_error"))
    expect(job).toMatchObject({ status: "done", billing: { status: "charged", amount: "0.27" } })

    await runJson(["key", "revoke", key_id], env)
    await expect.poll(async () => (await api.speak("x")).status, { timeout: 5_000 }).toBe(401)
  })

  it("submits the jobs of schedules of its types, counts them, and obeys a pause from another process", async () => {
    using data = temporaryDirectory()
    const port = await freePort()
    const env = { KILN_DATA_DIR: data.path }
    const stores = SqliteStores.layer({ path: join(data.path, "kiln.db") })
    const seed = Effect.all([
      writeSchedule("once", 5_000, { request: { input: "scheduled" } }),
      writeSchedule("foreign", 5_000, { kind: "digest" }),
      writeSchedule("soon", Date.now() + 3_600_000, { timing: { everyMs: 3_600_000, from: 0 } }),
      writeSchedule("over", null, { paused: false, endsAt: 1 }),
    ])
    await Effect.runPromise(Effect.provide(seed, stores))
    await using kiln = await serve({ ...env, KILN_MANAGEMENT_PORT: port })
    const jobs = async () => (await runJson(["job", "list"], env)).jobs
    await expect.poll(jobs, { timeout: 60_000 }).toMatchObject([{ type: "speech_synthesis", status: "done" }])
    expect(await runJson(["schedule", "pause", "soon"], env)).toEqual({ name: "soon", paused: true })
    const { schedules } = await runJson(["schedule", "list"], env)
    const [{ job_id }] = await jobs()
    expect(schedules).toMatchObject([
      { name: "foreign", last_job_id: null, next_at: "1970-01-01T00:00:05Z" },
      { name: "once", last_job_id: job_id, refusal: null },
      { name: "over", paused: false, next_at: null },
      { name: "soon", paused: true, next_at: null },
    ])
    expect(await jobs()).toHaveLength(1)
    const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
    for (const line of [
      'kiln_schedules{state="active"} 2',
      'kiln_schedules{state="paused"} 1',
      'kiln_schedules{state="ended"} 1',
      'kiln_schedule_ticks_total{kind="speech_synthesis",outcome="submitted"} 1',
    ])
      expect(text.split("\n")).toContain(line)
    expect(Number(/^kiln_schedule_oldest_due_seconds (\S+)$/m.exec(text)?.[1])).toBeGreaterThan(1e9)
    expect(kiln.stderr).not.toContain("canary")
  })

  it("has no live provider by default", async () => {
    using data = temporaryDirectory()
    const env = { KILN_DATA_DIR: data.path, KILN_SWITCH_AI: "off" }
    await using kiln = await serve(env)
    const flags = ["--project", "default", "--mode", "live", "--scope", "audio.create"]
    const { key } = await runJson(["key", "create", ...flags], env)
    await runJson(["switch", "on", "ai"], env)
    const refused = await new Api(kiln.listening.url, key).speak("x")
    expect((await refused.json()).error.details.missing).toEqual([
      "price:svc-audio",
      "switch:ai",
      "switch:audio",
      "provider:speech_synthesis",
    ])
  })

  it("runs API and worker separately, and stores blobs with a module's driver", async () => {
    using data = temporaryDirectory()
    const path = join(data.path, "storage.mjs")
    writeFileSync(
      path,
      `import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
       const place = ${JSON.stringify(join(data.path, "items"))}
       mkdirSync(place, { recursive: true })
       const file = (key) => place + "/" + Buffer.from(key).toString("hex")
       export default {
         getItemRaw: async (key) => { try { return readFileSync(file(key)) } catch { return null } },
         setItemRaw: async (key, value) => writeFileSync(file(key), value),
         removeItem: async (key) => rmSync(file(key), { force: true }),
         getKeys: async (base) => readdirSync(place).map((name) => Buffer.from(name, "hex").toString()).filter((key) => key.startsWith(base)),
       }`,
    )
    const env = { KILN_DATA_DIR: data.path, KILN_BLOBS: path }
    await using api = await serve({ ...env, KILN_ROLE: "api" })
    const client = new Api(api.listening.url, api.listening.first_key?.key ?? "")
    const id = await client.createSpeech("Made by one process, spoken by another.")
    expect(await client.job(id)).toMatchObject({ status: "queued" })
    await using worker = new KilnProcess(["serve"], { ...env, KILN_ROLE: "worker" })
    const job = await client.finished(id)
    expect(job.status).toBe("done")
    expect(worker.stdout).toBe("")
    const audio = await fetch(job.output?.audio_url ?? "")
    expect([audio.status, (await audio.arrayBuffer()).byteLength > 1_000]).toEqual([200, true])
    expect(existsSync(join(data.path, "blobs"))).toBe(false)
    worker.kill("SIGTERM")
    expect((await worker.ended()).exit).toBe(0)
  })
})
