import { sqliteStore } from "@kiln/adapter-sqlite"
import { createEngine, jobKind, type LogEntry, providerPort } from "@kiln/core"
import { openTelemetry } from "@kiln/core/opentelemetry"
import { memoryBlobs, memoryStore } from "@kiln/testing"
import * as api from "@opentelemetry/api"
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks"
import {
  AggregationTemporality,
  DataPointType,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from "@opentelemetry/sdk-metrics"
import {
  AlwaysOffSampler,
  InMemorySpanExporter,
  ParentBasedSampler,
  type ReadableSpan,
  type Sampler,
  SimpleSpanProcessor,
  TracerProvider,
} from "@opentelemetry/sdk-trace"
import Database from "better-sqlite3"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterEach, describe, expect, it } from "vitest"
import { z } from "zod"

const canary = "canary-77c1"
const program = () => api.trace.getTracer("program")

const echo = jobKind({
  name: "echo",
  request: z.object({ how: z.string().default("well") }),
  errorCodes: ["quota_used_up"],
  limits: { maxFailures: 1 },
  run: async ({ failure, request: { how }, step }) => {
    await new Promise((resolve) => setTimeout(resolve, 5))
    if (how === "badly") throw failure("quota_used_up", { message: canary })
    if (how === "throw") throw new RangeError(canary)
    await program().startActiveSpan("in run", async (span) => {
      await step("measure", async () => {
        await new Promise((resolve) => setTimeout(resolve, 5))
        program().startSpan("in step").end()
        return 1
      })
      span.end()
    })
    return { output: {} }
  },
})

const exporter = new InMemorySpanExporter()
const left = new DisposableStack()
const directory = mkdtempSync(join(tmpdir(), "kiln-otel-"))
let database = 0
const nextDatabase = () => join(directory, `${(database += 1)}.db`)

const registerTraces = (sampler?: Sampler) => {
  api.context.setGlobalContextManager(new AsyncLocalStorageContextManager())
  const spanProcessors = [new SimpleSpanProcessor({ exporter })]
  api.trace.setGlobalTracerProvider(new TracerProvider({ spanProcessors, ...(sampler && { sampler }) }))
}

const registerMetrics = (temporality = AggregationTemporality.CUMULATIVE) => {
  const metrics = new InMemoryMetricExporter(temporality)
  const reader = new PeriodicExportingMetricReader({ exporter: metrics, exportIntervalMillis: 3_600_000 })
  const provider = new MeterProvider({ readers: [reader] })
  api.metrics.setGlobalMeterProvider(provider)
  return {
    provider,
    /** The values of each series after a collection: a number, or the count and sum of a histogram. */
    collect: async () => {
      metrics.reset()
      await provider.forceFlush()
      const series = new Map<string, unknown>()
      for (const { metrics: all } of metrics.getMetrics().at(-1)?.scopeMetrics ?? [])
        for (const data of all)
          for (const { attributes, value } of data.dataPoints) {
            const labels = Object.entries(attributes).map(([name, label]) => `${name}=${String(label)}`)
            const isHistogram = data.dataPointType === DataPointType.HISTOGRAM
            series.set(
              [data.descriptor.name, ...labels].join(" "),
              isHistogram ? (value as { count: number }).count : value,
            )
          }
      return series
    },
  }
}

const open = (path: string, more: object = {}) =>
  createEngine({
    store: sqliteStore({ path }),
    blobs: memoryBlobs(),
    kinds: [echo],
    log: false,
    telemetry: openTelemetry(api),
    settings: { pollIntervalMs: 20, attempts: { backoffBaseMs: 1, backoffMaxMs: 2 } },
    ...more,
  })

afterEach(() => {
  exporter.reset()
  api.trace.disable()
  api.metrics.disable()
  api.context.disable()
})
left.defer(() => rmSync(directory, { recursive: true }))
process.once("beforeExit", () => left.dispose())

/** Each span as `parent > name`, in the order of names. */
const shown = (spans: ReadonlyArray<ReadableSpan>): ReadonlyArray<string> =>
  spans
    .map(({ name, parentSpanContext }) => {
      const parent = spans.find((span) => span.spanContext().spanId === parentSpanContext?.spanId)
      if (parentSpanContext === undefined) return name
      return `${parent?.name ?? "elsewhere"} > ${name}`
    })
    .toSorted()

const until = async <A>(look: () => A | undefined): Promise<A> => {
  for (;;) {
    const found = look()
    if (found !== undefined) return found
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}
const attemptsEnded = (count: number) =>
  until(() => {
    const spans = exporter.getFinishedSpans()
    return spans.filter(({ name }) => name === "Worker.attempt").length >= count ? spans : undefined
  })

describe("traces", () => {
  it("follow a job from the caller's span through one engine to its run in another", async () => {
    registerTraces()
    const path = nextDatabase()
    await using submitting = await open(path, { worker: false })
    const job = await program().startActiveSpan("request", async (span) => {
      const submitted = await submitting.submit("echo", {})
      span.end()
      return submitted
    })
    await using working = await open(path)
    expect(await submitting.wait(job)).toMatchObject({ status: "done" })
    const spans = await attemptsEnded(1)
    const trace = spans.find(({ name }) => name === "request")?.spanContext().traceId
    expect(spans.filter((span) => span.spanContext().traceId !== trace).map(({ name }) => name)).toEqual([])
    expect(shown(spans)).toEqual([
      "Attempt.step > in step",
      "Engine.createJob > JobStore.createJobs",
      "Engine.createJob > Worker.attempt",
      "Worker.attempt > JobStore.completeJobs",
      "Worker.attempt > in run",
      "in run > Attempt.step",
      "in run > JobStore.checkpointJobs",
      "request",
      "request > Engine.createJob",
    ])
    expect(working.operator).toBeDefined()
    const attempt = spans.find(({ name }) => name === "Worker.attempt")
    expect(attempt).toMatchObject({ kind: api.SpanKind.CONSUMER, status: { code: api.SpanStatusCode.UNSET } })
    expect(attempt?.attributes).toMatchObject({
      "kiln.job.id": job.id,
      "kiln.job.kind": "echo",
      "kiln.job.attempt": 1,
      "kiln.attempt.outcome": "done",
    })
    const step = spans.find(({ name }) => name === "Attempt.step")
    expect(step?.attributes).toEqual({ "kiln.step": "measure" })
    expect(spans.find(({ name }) => name === "Engine.createJob")?.kind).toBe(api.SpanKind.PRODUCER)
  })

  it("follow jobs of every way to submit", async () => {
    registerTraces()
    const path = nextDatabase()
    await using engine = await open(path)
    const handle = new Database(path)
    left.defer(() => handle.close())
    const jobs = await program().startActiveSpan("request", async (span) => {
      handle.exec("BEGIN IMMEDIATE")
      const inTransaction = [
        engine.submitSync("echo", {}, { transaction: handle }),
        ...engine.submitManySync("echo", [{ request: {} }], { transaction: handle }).map(({ job }) => job),
      ]
      handle.exec("COMMIT")
      const some = await engine.submitMany("echo", [{ request: {} }, { request: {} }])
      span.end()
      return [...inTransaction, ...some.map(({ job }) => job)]
    })
    for (const job of jobs) expect(await engine.wait(job?.id ?? "")).toMatchObject({ status: "done" })
    const spans = await attemptsEnded(4)
    expect(shown(spans).filter((line) => /Worker.attempt$|createJobs?(In)?(Sync)?$/.test(line))).toEqual([
      "Engine.createJobInSync > Worker.attempt",
      "Engine.createJobs > Worker.attempt",
      "Engine.createJobs > Worker.attempt",
      "Engine.createJobsInSync > Worker.attempt",
      "request > Engine.createJobInSync",
      "request > Engine.createJobs",
      "request > Engine.createJobsInSync",
    ])
  })

  it("have the children of a job below the attempt that submitted them", async () => {
    registerTraces()
    const parent = jobKind({
      name: "parent",
      request: z.object({}),
      run: async ({ children }) => {
        const done = await children("each", echo, [{}, {}])
        return { output: { count: done.length } }
      },
    })
    await using engine = await open(nextDatabase(), { kinds: [echo, parent] })
    const job = await program().startActiveSpan("request", async (span) => {
      const submitted = await engine.submit("parent" as never, {} as never)
      span.end()
      return submitted
    })
    expect(await engine.wait(job)).toMatchObject({ status: "done" })
    const isLast = ({ attributes }: ReadableSpan) =>
      attributes["kiln.job.kind"] === "parent" && attributes["kiln.attempt.outcome"] === "done"
    const spans = await until(() => {
      const ended = exporter.getFinishedSpans()
      return ended.some(isLast) ? ended : undefined
    })
    const request = spans.find(({ name }) => name === "request")
    const attempts = spans.filter(({ name }) => name === "Worker.attempt")
    expect(new Set(attempts.map((span) => span.spanContext().traceId))).toEqual(
      new Set([request?.spanContext().traceId]),
    )
    expect(shown(spans)).toContain("Worker.attempt > Engine.createJobs")
    expect(shown(spans).filter((line) => line === "Engine.createJobs > Worker.attempt")).toHaveLength(2)
    const outcomes = attempts.map(({ attributes }) => [attributes["kiln.job.kind"], attributes["kiln.attempt.outcome"]])
    expect(outcomes).toContainEqual(["parent", "deferred"])
  })

  it("begin with a job that is submitted outside a span, and not with reads, polls or sweeps", async () => {
    registerTraces()
    await using engine = await open(nextDatabase())
    const job = await engine.submitAndWait("echo", {})
    await engine.get(job)
    await engine.operator.list({})
    await new Promise((resolve) => setTimeout(resolve, 100))
    const spans = await attemptsEnded(1)
    expect(shown(spans).filter((line) => !line.includes(" > "))).toEqual(["Engine.createJob"])
    await program().startActiveSpan("request", async (span) => {
      await engine.get(job)
      span.end()
    })
    expect(shown(exporter.getFinishedSpans())).toContain("request > Engine.getJob")
  })

  it("stay separate when callers share commits, and do not leak out of the span in which the engine was created", async () => {
    registerTraces()
    const path = nextDatabase()
    await using engine = await program().startActiveSpan("boot", async (span) => {
      const opened = await open(path)
      span.end()
      return opened
    })
    const activeInShared: Array<unknown> = []
    engine.on("queued", () => activeInShared.push(api.trace.getActiveSpan()))
    const jobs = await Promise.all(
      Array.from({ length: 5 }, (_, index) =>
        program().startActiveSpan(`request ${index}`, async (span) => {
          const job = await engine.submit("echo", {})
          expect(api.trace.getActiveSpan()).toBe(span)
          span.end()
          return job
        }),
      ),
    )
    for (const job of jobs) await engine.wait(job)
    const spans = await attemptsEnded(5)
    for (const [index, { id }] of jobs.entries()) {
      const { traceId } = spans.find(({ name }) => name === `request ${index}`)?.spanContext() ?? {}
      const mine = spans.filter((span) => span.spanContext().traceId === traceId)
      expect(mine.map(({ name }) => name)).toContain("Worker.attempt")
      const attempts = mine.filter(({ name }) => name === "Worker.attempt")
      expect(attempts.map(({ attributes }) => attributes["kiln.job.id"])).toEqual([id])
    }
    // What callers share belongs to none of them, so neither do the queries that an instrumented driver sends for it.
    expect(activeInShared).toEqual(jobs.map(() => undefined))
    const { traceId } = spans.find(({ name }) => name === "boot")?.spanContext() ?? {}
    expect(spans.filter((span) => span.spanContext().traceId === traceId).map(({ name }) => name)).toEqual(["boot"])
  })

  it("have the code of a failure and no message", async () => {
    registerTraces()
    await using engine = await open(nextDatabase())
    for (const how of ["badly", "throw"]) await engine.submitAndWait("echo", { how })
    const spans = await attemptsEnded(2)
    const ends = spans
      .filter(({ name }) => name === "Worker.attempt")
      .map(({ attributes, status }) => [status.code, attributes["error.type"], attributes["kiln.attempt.outcome"]])
    expect(ends).toEqual([
      [api.SpanStatusCode.ERROR, "quota_used_up", "failed"],
      [api.SpanStatusCode.ERROR, "RangeError", "failed"],
    ])
    const recorded = spans.map(({ attributes, events, links, name, status }) => ({
      attributes,
      events,
      links,
      name,
      status,
    }))
    expect(JSON.stringify(recorded)).toContain("exception.stacktrace")
    expect(JSON.stringify(recorded)).not.toContain(canary)
  })

  it("are sampled as the program's SDK decides, in both processes", async () => {
    registerTraces(new ParentBasedSampler({ root: new AlwaysOffSampler() }))
    await using engine = await open(nextDatabase())
    await engine.submitAndWait("echo", {})
    expect(exporter.getFinishedSpans()).toEqual([])
  })
})

describe("metrics", () => {
  it("count jobs and attempts, and measure the queue, under the names of /metrics", async () => {
    const { collect, provider } = registerMetrics()
    const path = nextDatabase()
    await using engine = await open(path)
    await engine.submitAndWait("echo", {})
    await engine.submitAndWait("echo", { how: "badly" })
    await engine.submit("echo", {}, { delayMs: 3_600_000 })
    const series = await collect()
    expect(Object.fromEntries(series)).toMatchObject({
      "kiln_jobs_created_total kind=echo mode=sandbox": 3,
      "kiln_jobs_created_total kind=echo mode=live": 0,
      "kiln_jobs_completed_total kind=echo mode=sandbox": 1,
      "kiln_jobs_failed_total kind=echo mode=sandbox error_code=quota_used_up": 1,
      "kiln_attempts_started_total kind=echo mode=sandbox": 2,
      "kiln_leases_lost_total kind=echo mode=sandbox reason=lease_lost": 0,
      "kiln_attempt_duration_seconds kind=echo mode=sandbox outcome=done": 1,
      "kiln_attempt_duration_seconds kind=echo mode=sandbox outcome=failed": 1,
      "kiln_job_waiting_seconds kind=echo mode=sandbox": 2,
      "kiln_queue_jobs kind=echo mode=sandbox state=delayed": 1,
      "kiln_queue_jobs kind=echo mode=sandbox state=ready": 0,
      "kiln_queue_oldest_ready_seconds kind=echo mode=sandbox": 0,
      kiln_worker_jobs_running: 0,
    })
    await engine.stop()
    await provider.shutdown()
  })

  it("tell once how long a job waited for its first attempt, however often it waits later", async () => {
    const { collect, provider } = registerMetrics()
    const nap = jobKind({
      name: "nap",
      request: z.object({}),
      run: async ({ sleep }) => {
        await sleep("a", 10)
        await sleep("b", 10)
      },
      onFinished: () => Promise.resolve(),
    })
    const settings = { pollIntervalMs: 10 }
    const parts = { store: memoryStore(), kinds: [nap], log: false, telemetry: openTelemetry(api), settings } as const
    await using engine = await createEngine(parts)
    const first = await engine.submit("nap", {})
    await engine.wait(await engine.submit("nap", {}, { after: [first] }))
    expect(Object.fromEntries(await collect())).toMatchObject({
      "kiln_job_waiting_seconds kind=nap mode=sandbox": 2,
      "kiln_delivery_calls_total kind=nap outcome=given_up": 0,
    })
    await engine.stop()
    await provider.shutdown()
  })

  it("count the jobs that end while the engine stops", async () => {
    const { collect, provider } = registerMetrics()
    const engine = await open(nextDatabase())
    const begun = Promise.withResolvers<unknown>()
    engine.on("active", begun.resolve)
    await engine.submit("echo", {})
    await begun.promise
    await engine.stop()
    expect(Object.fromEntries(await collect())).toMatchObject({
      "kiln_jobs_completed_total kind=echo mode=sandbox": 1,
      "kiln_attempt_duration_seconds kind=echo mode=sandbox outcome=done": 1,
    })
    await provider.shutdown()
  })

  it("count the calls of live providers", async () => {
    const { collect, provider } = registerMetrics()
    const embedding = providerPort({ name: "embedding", check: (answer) => answer as { readonly size: number } })
    const embed = jobKind({
      name: "embed",
      request: z.object({}),
      providers: [embedding],
      run: async ({ ask }) => ({ output: { ...(await ask.embedding({ text: "Hello" })) } }),
    })
    const providers = { live: { embedding: async () => ({ size: 3 }) } }
    await using engine = await createEngine({
      store: memoryStore(),
      blobs: memoryBlobs(),
      kinds: [embed],
      log: false,
      providers,
      telemetry: openTelemetry(api),
    })
    expect(await engine.submitAndWait("embed", {})).toMatchObject({ status: "done" })
    const series = [...(await collect())].filter(([name]) => name.startsWith("kiln_provider_"))
    expect(Object.fromEntries(series)).toEqual({
      "kiln_provider_calls_total provider=embedding outcome=answered": 1,
      "kiln_provider_call_seconds provider=embedding": 1,
      "kiln_provider_paused provider=embedding reason=quota": 0,
      "kiln_provider_paused provider=embedding reason=configuration": 0,
      "kiln_provider_paused provider=embedding reason=failing": 0,
    })
    await engine.stop()
    await provider.shutdown()
  })

  it("end with the engine", async () => {
    // A cumulative gauge would keep its last value.
    const { collect, provider } = registerMetrics(AggregationTemporality.DELTA)
    const engine = await open(nextDatabase())
    expect([...(await collect()).keys()].some((name) => name.startsWith("kiln_queue_jobs "))).toBe(true)
    await engine.stop()
    expect([...(await collect()).keys()].some((name) => name.startsWith("kiln_queue_jobs "))).toBe(false)
    await provider.shutdown()
  })
})

describe("an engine", () => {
  it("without an SDK works, reports nothing and says so", async () => {
    const log: Array<LogEntry> = []
    await using engine = await open(nextDatabase(), { log: (entry: LogEntry) => log.push(entry) })
    expect(await engine.submitAndWait("echo", {})).toMatchObject({ status: "done" })
    expect(log.map(({ level, message }) => `${level} ${message}`)).toContain(
      "info no OpenTelemetry SDK for traces and metrics was registered when the engine was created",
    )
    expect(exporter.getFinishedSpans()).toEqual([])
  })

  it("without telemetry stores no trace, whatever is active", async () => {
    registerTraces()
    await using engine = await open(nextDatabase(), { telemetry: undefined })
    await program().startActiveSpan("request", async (span) => {
      await engine.submitAndWait("echo", {})
      span.end()
    })
    expect(exporter.getFinishedSpans().map(({ name }) => name)).not.toContain("Worker.attempt")
  })

  it("rejects anything but an adapter of telemetry", async () => {
    const parts = { store: memoryStore(), blobs: memoryBlobs(), kinds: [echo], log: false, worker: false } as const
    await expect(createEngine({ ...parts, telemetry: api as never })).rejects.toThrow(
      '"telemetry" must be a kiln adapter',
    )
    expect(() => openTelemetry({} as never)).toThrow('import * as api from "@opentelemetry/api"')
  })
})
