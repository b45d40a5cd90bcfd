import { spawn, spawnSync } from "node:child_process"
import { once } from "node:events"
import { readFileSync, writeFileSync } from "node:fs"
import { createServer } from "node:net"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { type KilnProcess, type Listening, runJson, serve, temporaryDirectory, until } from "@kiln/service-lab"
import { Api } from "../support/Api.ts"
import { attributesOf, Collector, type ExportedSpan } from "./Collector.ts"
import { declaredMetrics, repository } from "./metricNames.ts"

/** Whether a program is installed. */
const has = (program: string): boolean => spawnSync(program, ["--version"]).error === undefined

/** A port that was free a moment ago. */
const freePort = async (): Promise<string> => {
  await using server = createServer().listen(0, "127.0.0.1")
  await once(server, "listening")
  const address = server.address()
  return String(typeof address === "object" ? address?.port : address)
}

const canary = "canary-b7c1f2"
const traceId = "4bf92f3577b34da6a3ce929d0e0e4736"
const callerSpan = "00f067aa0ba902b7"

/** One process that exports everything, after a few requests: jobs that end well and badly, an upload, and refused requests. */
describe("a service that is observed", () => {
  const data = temporaryDirectory()
  let collector: Collector
  let kiln: KilnProcess & { readonly listening: Listening }
  let management: string
  let keys: ReadonlyArray<string>
  let jobId: string
  let uploadUrl: string
  let downloadUrl: string

  const post = (path: string, key: string, body: object, headers: Readonly<Record<string, string>> = {}) =>
    fetch(`${kiln.listening.url}${path}`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${key}`,
        "content-type": "application/json",
        "idempotency-key": `${canary}-${crypto.randomUUID()}`,
        ...headers,
      },
      body: JSON.stringify(body),
    })
  const metrics = async () => (await fetch(`${management}/metrics`)).text()
  const logLines = () =>
    kiln.stderr
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as Record<string, unknown>)

  beforeAll(async () => {
    collector = await Collector.open()
    const port = await freePort()
    management = `http://127.0.0.1:${port}`
    const env = { KILN_DATA_DIR: data.path }
    kiln = await serve({
      ...env,
      KILN_MANAGEMENT_PORT: port,
      KILN_LOG_FORMAT: "json",
      KILN_ACCESS_LOG: "on",
      KILN_PROVIDER: "sandbox",
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
      OTEL_EXPORTER_OTLP_HEADERS: "x-collector-key=collector-secret",
      OTEL_RESOURCE_ATTRIBUTES: "deployment.environment=test",
      OTEL_BSP_SCHEDULE_DELAY: "100",
      OTEL_BLRP_SCHEDULE_DELAY: "100",
      OTEL_METRIC_EXPORT_INTERVAL: "300",
    })
    const testKey = kiln.listening.first_key?.key ?? ""
    const flags = ["--project", "default", "--mode", "live", "--scope", "audio.create"]
    const { key: liveKey } = await runJson(["key", "create", ...flags], env)
    await runJson(["price", "set", "svc-audio", "--input-character", "0.01"], env)
    await runJson(["price", "activate", "svc-audio"], env)
    for (const name of ["ai", "audio"]) await runJson(["switch", "on", name], env)
    keys = [testKey, liveKey as string]

    const accepted = await post(
      "/v1/audio/speech",
      liveKey as string,
      { input: `${canary} hello` },
      {
        traceparent: `00-${traceId}-${callerSpan}-01`,
        "x-request-id": "edge-0123456789",
      },
    )
    expect(accepted.status).toBe(202)
    expect(accepted.headers.get("x-request-id")).toBe("edge-0123456789")
    jobId = (await accepted.json()).id
    expect((await post("/v1/audio/speech", testKey, { input: "sandbox:fail:content_rejected" })).status).toBe(202)
    expect((await post("/v1/images/generations", testKey, { prompt: `${canary} a kiln` })).status).toBe(202)
    expect((await post("/v1/audio/speech", testKey, { input: "x", [canary]: canary })).status).toBe(400)
    expect((await post("/v1/audio/speech", `kiln_test_${canary}`, { input: canary })).status).toBe(401)
    const upload = await post("/v1/audio/uploads", testKey, { format: "wav", declared_seconds: 1 })
    uploadUrl = (await upload.json()).upload_url
    const put = { method: "PUT", headers: { "content-type": "audio/wav" }, body: `RIFF....WAVE${canary}` }
    expect([204, 422]).toContain((await fetch(uploadUrl, put)).status)
    await fetch(`${kiln.listening.url}/${canary}?secret=${canary}`)
    await fetch(`${kiln.listening.url}/v1/jobs/${liveKey}`, { method: "GET" })
    await fetch(`${kiln.listening.url}/v1/jobs/${jobId}`, { method: canary.toUpperCase().replaceAll(/[^A-Z]/g, "") })
    await until(async () => ((await metrics()).includes("kiln_jobs_failed_total{") ? true : undefined))
    const output = await new Api(kiln.listening.url, liveKey as string).finished(jobId)
    downloadUrl = output.output?.audio_url ?? ""
    // A streamed response, with a byte range.
    expect((await fetch(downloadUrl, { headers: { range: "bytes=0-9" } })).status).toBe(206)
    expect((await (await fetch(downloadUrl)).arrayBuffer()).byteLength).toBeGreaterThan(100)
    await until(async () =>
      /kiln_charges_total\{kind="speech_synthesis",currency="usd"\} 1/.test(await metrics()) ? true : undefined,
    )
  }, 120_000)
  afterAll(async () => {
    await kiln?.[Symbol.asyncDispose]()
    await collector?.[Symbol.asyncDispose]()
    data[Symbol.dispose]()
  })

  it("exports one trace from the caller's span over the request and the job to the provider", async () => {
    const names = [
      "POST /v1/audio/speech",
      "Engine.createJob",
      "JobStore.createJobs",
      "Worker.attempt",
      "Provider.speech",
      "JobStore.completeJobs",
    ]
    const spans = await collector.trace(traceId, names)
    const byName = (name: string): ExportedSpan | undefined => spans.find((span) => span.name === name)
    const request = byName("POST /v1/audio/speech")
    expect(request).toMatchObject({ parentSpanId: callerSpan, kind: 2 })
    expect(attributesOf(request ?? { attributes: [] })).toMatchObject({
      "http.request.method": "POST",
      "http.route": "/v1/audio/speech",
      "http.response.status_code": "202",
      "kiln.request.id": "edge-0123456789",
      "kiln.job.id": jobId,
    })
    const operation = byName("Engine.createJob")
    expect(operation?.parentSpanId).toBe(request?.spanId)
    const attempt = byName("Worker.attempt")
    expect(attempt).toMatchObject({ parentSpanId: operation?.spanId, kind: 5 })
    expect(attributesOf(attempt ?? { attributes: [] })).toMatchObject({ "kiln.job.id": jobId, "kiln.job.attempt": "1" })
    for (const name of ["Provider.speech", "JobStore.completeJobs"])
      expect(byName(name)?.parentSpanId, name).toBe(attempt?.spanId)
  })

  it("exports no trace of its own polls and sweeps, nor of probes", async () => {
    await fetch(`${kiln.listening.url}/healthz`)
    await collector.trace(traceId, ["Worker.attempt"])
    const rootNames = () => {
      // Read each time: the collector has more by then.
      const { spans } = collector
      const ids = new Set(spans.map(({ spanId }) => spanId))
      const roots = spans.filter(({ parentSpanId = callerSpan }) => !ids.has(parentSpanId))
      return new Set(roots.map(({ name }) => name.replace(/^(GET|POST|PUT)\b.*/, "request")))
    }
    // A span is exported when it ends, so for a moment its children are there without it.
    await until(() => (rootNames().size === 1 ? true : undefined), 60_000).catch(() => undefined)
    expect(rootNames()).toEqual(new Set(["request"]))
    expect(collector.spans.filter(({ name }) => name.includes("healthz"))).toEqual([])
  })

  it("marks the span of a failed provider call, without its message", async () => {
    const failed = await until(() =>
      collector.spans.find(({ name, status }) => name === "Provider.speech" && status.code === 2),
    )
    expect(failed.status.message).toBe("content_rejected")
  })

  it("logs one JSON object a line, with the ids at the top level", async () => {
    const entry = await until(() => logLines().find((line) => line["request_id"] === "edge-0123456789"))
    expect(entry).toMatchObject({
      level: "info",
      message: "request",
      job_id: jobId,
      project_id: kiln.listening.first_key?.project_id,
      method: "POST",
      route: "/v1/audio/speech",
      status: 202,
    })
    expect(entry["time"]).toMatch(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/)
    const ended = await until(() => logLines().find(({ message }) => String(message).startsWith("attempt ended")))
    expect(ended).toMatchObject({
      level: "warn",
      job_id: expect.stringMatching(/^job_/),
      project_id: expect.stringMatching(/^prj_/),
      attempt: 1,
    })
  })

  it("exports logs with the same fields, and metrics under the same names", async () => {
    const entry = await until(() => collector.logs.find((log) => attributesOf(log)["request_id"] === "edge-0123456789"))
    expect(entry).toMatchObject({ body: { stringValue: "request" }, severityText: "Info" })
    expect(attributesOf(entry)).toMatchObject({ job_id: jobId, route: "/v1/audio/speech" })
    const names = await until(() =>
      collector.metricNames.has("kiln_charges_total") ? collector.metricNames : undefined,
    )
    const scraped = new Set(Array.from((await metrics()).matchAll(/^# TYPE (\S+)/gm), ([, name = ""]) => name))
    expect([...names].filter((name) => !scraped.has(name))).toEqual([])
    expect(collector.received.every(({ headers }) => headers["x-collector-key"] === "collector-secret")).toBe(true)
    expect(collector.received[0]?.body).toContain("deployment.environment")
    expect(collector.received[0]?.body).toContain('"kiln"')
  })

  it("counts what has happened", async () => {
    const text = await metrics()
    const value = (series: string): number =>
      Number(
        text
          .split("\n")
          .find((line) => line.startsWith(`${series} `))
          ?.slice(series.length),
      )
    expect(value('kiln_jobs_created_total{kind="speech_synthesis",mode="live"}')).toBe(1)
    expect(value('kiln_jobs_completed_total{kind="speech_synthesis",mode="live"}')).toBe(1)
    expect(value('kiln_jobs_failed_total{kind="speech_synthesis",mode="sandbox",error_code="content_rejected"}')).toBe(
      1,
    )
    expect(value('kiln_attempt_duration_seconds_count{kind="speech_synthesis",mode="live",outcome="done"}')).toBe(1)
    expect(value('kiln_job_waiting_seconds_count{kind="speech_synthesis",mode="live"}')).toBe(1)
    expect(value('kiln_charged_amount_total{kind="speech_synthesis",currency="usd"}')).toBeCloseTo(
      0.01 * `${canary} hello`.length,
    )
    expect(value('kiln_provider_calls_total{provider="speech",outcome="answered"}')).toBe(1)
    expect(value('kiln_http_requests_total{method="POST",route="/v1/audio/speech",status="401"}')).toBe(1)
    expect(value('kiln_http_requests_total{method="GET",route="unmatched",status="404"}')).toBe(1)
    expect(value('kiln_http_refusals_total{route="/v1/audio/speech",code="invalid_api_key"}')).toBe(1)
    expect(value('kiln_http_refusals_total{route="unmatched",code="not_found"}')).toBe(1)
    expect(value(`kiln_disk_free_bytes{directory="${data.path}"}`)).toBeGreaterThan(0)
    expect(value(`kiln_disk_size_bytes{directory="${data.path}"}`)).toBeGreaterThan(
      value(`kiln_disk_free_bytes{directory="${data.path}"}`),
    )
    expect(text).toMatch(/^kiln_backup_last_timestamp_seconds 0$/m)
    expect(value("kiln_http_requests_in_flight")).toBe(0)
    expect(value('kiln_queue_oldest_ready_seconds{kind="speech_synthesis",mode="live"}')).toBe(0)
    expect(value('kiln_blob_operations_total{operation="put",outcome="done"}')).toBeGreaterThan(0)
    // Alerts watch their increase, which Prometheus does not see in a series that begins with its first event.
    for (const series of [
      'kiln_leases_lost_total{kind="speech_synthesis",mode="live",reason="stalled"}',
      'kiln_blob_operations_total{operation="put",outcome="failed"}',
      'kiln_sweeps_total{sweep="expire",outcome="failed"}',
    ])
      expect(value(series), series).toBe(0)
    expect(value("kiln_ready")).toBe(1)
  })

  it("puts no prompt, key, signature or unknown path into logs, traces and metrics", async () => {
    await collector.trace(traceId, ["Worker.attempt"])
    const texts = [kiln.stderr, await metrics(), ...collector.received.map(({ body }) => body)]
    const signatures = [uploadUrl, downloadUrl].map((url) => new URL(url).searchParams.get("s") ?? "none")
    await until(() => collector.spans.find(({ name }) => name === "GET /v1/files/:id"))
    for (const secret of [canary, ...keys, ...signatures, "collector-secret"])
      expect(texts.filter((text) => text.includes(secret)).map((text) => text.slice(0, 200))).toEqual([])
  })

  it("exports metrics that promtool accepts, and only declared ones", async ({ skip }) => {
    const text = await metrics()
    const exported = Array.from(text.matchAll(/^# TYPE (\S+)/gm), ([, name = ""]) => name)
    const declared = new Set(declaredMetrics().map(({ name }) => name))
    expect(exported.filter((name) => !declared.has(name))).toEqual([])
    for (const name of exported) expect(text).toMatch(new RegExp(`^# HELP ${name} \\S.+`, "m"))
    if (!has("promtool")) return skip("promtool of the Debian package prometheus is not installed")
    const check = spawnSync("promtool", ["check", "metrics"], { input: text, encoding: "utf8" })
    expect([check.status, check.stderr]).toEqual([0, ""])
    const place = join(repository, "deploy/prometheus")
    for (const args of [
      ["check", "config", "prometheus.yml"],
      ["test", "rules", "kiln-alerts.test.yml"],
    ]) {
      const ran = spawnSync("promtool", args, { cwd: place, encoding: "utf8" })
      expect([ran.status, args], ran.stdout + ran.stderr).toEqual([0, args])
    }
  })

  it("can be scraped by Prometheus with the alerts of deploy/", async ({ skip }) => {
    if (!has("prometheus")) return skip("the Debian package prometheus is not installed")
    const config = readFileSync(join(repository, "deploy/prometheus/prometheus.yml"), "utf8")
      .replaceAll("127.0.0.1:9464", new URL(management).host)
      .replaceAll("15s", "1s")
      .replace("kiln-alerts.yml", join(repository, "deploy/prometheus/kiln-alerts.yml"))
    const path = join(data.path, "prometheus.yml")
    writeFileSync(path, config)
    const port = await freePort()
    const prometheus = spawn(
      "prometheus",
      [
        `--config.file=${path}`,
        `--storage.tsdb.path=${join(data.path, "tsdb")}`,
        `--web.listen-address=127.0.0.1:${port}`,
      ],
      { stdio: "ignore" },
    )
    try {
      const ask = async (api: string) => {
        const response = await fetch(`http://127.0.0.1:${port}/api/v1/${api}`).catch(() => undefined)
        return response?.ok === true ? (await response.json()).data : undefined
      }
      const found = await until(async () => {
        const answer = await ask(`query?query=${encodeURIComponent('kiln_jobs_completed_total{mode="live"} > 0')}`)
        return answer?.result?.length > 0 ? answer.result : undefined
      })
      expect(found).toMatchObject([
        { metric: { job: "kiln", kind: "speech_synthesis" }, value: [expect.anything(), "1"] },
      ])
      const { groups } = await until(() => ask("rules"))
      const states = await until(async () => {
        const { groups: evaluated } = (await ask("rules")) ?? { groups }
        const rules: ReadonlyArray<{ readonly health: string }> = evaluated[0].rules
        return rules.every(({ health }) => health !== "unknown") ? rules : undefined
      })
      expect(states.length).toBeGreaterThan(10)
      expect(states.filter(({ health }) => health !== "ok")).toEqual([])
    } finally {
      prometheus.kill("SIGKILL")
      await once(prometheus, "close")
    }
  })

  it("sends the rest when it stops", async () => {
    await fetch(`${kiln.listening.url}/v1/jobs/${jobId}`, { headers: { "x-request-id": "the-last-request" } })
    kiln.kill("SIGTERM")
    expect((await kiln.ended()).exit).toBe(0)
    const spans = collector.spans.filter((span) => attributesOf(span)["kiln.request.id"] === "the-last-request")
    expect(spans.map(({ name }) => name)).toEqual(["GET /v1/jobs/:id"])
    const logs = collector.logs.filter((log) => attributesOf(log)["request_id"] === "the-last-request")
    expect(logs).toHaveLength(1)
  })
})
