import { createServer } from "node:http"
import { monitorEventLoopDelay } from "node:perf_hooks"
import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"
import type * as Scope from "effect/Scope"
import * as PrometheusMetrics from "effect/observability/PrometheusMetrics"
import { EngineConfig } from "@kiln/core/effect"
import type { Worker } from "@kiln/core/worker"
import { Readiness } from "@kiln/http"
import type { CommandFailed } from "../CommandFailed.ts"
import { portProblem } from "../startProblems.ts"

const gauge = (name: string, description: string) => Metric.gauge(name, { description })

const uptime = gauge("process_uptime_seconds", "Seconds since the process started")
const cpu = gauge("process_cpu_seconds", "Processor seconds used, user and system together")
const memory = gauge("process_resident_memory_bytes", "Resident memory")
const heap = gauge("nodejs_heap_used_bytes", "JavaScript heap in use")
const delay = gauge(
  "nodejs_eventloop_delay_p99_seconds",
  "99th percentile of the event loop's delay since the last scrape",
)
const ready = gauge("kiln_ready", "1 if every check of /readyz passes")
const running = gauge("kiln_worker_jobs_running", "Jobs currently running in this process")
const concurrency = gauge("kiln_worker_concurrency", "Maximum number of concurrent jobs in this process")
const lastClaim = gauge(
  "kiln_worker_last_claim_timestamp_seconds",
  "Time of the store's last response to a claim, in Unix seconds",
)

/** Ignores errors of broken connections, which would end the process without a listener. */
const ignore = (): void => {}

const measureProcess = (delays: ReturnType<typeof monitorEventLoopDelay>) =>
  Effect.gen(function* () {
    const used = process.cpuUsage()
    const { heapUsed, rss } = process.memoryUsage()
    yield* Metric.update(uptime, process.uptime())
    yield* Metric.update(cpu, (used.user + used.system) / 1e6)
    yield* Metric.update(memory, rss)
    yield* Metric.update(heap, heapUsed)
    yield* Metric.update(delay, delays.percentile(99) / 1e9)
    delays.reset()
  })

const measureWorker = (worker: Worker["Service"]) =>
  Effect.gen(function* () {
    yield* Metric.update(running, yield* worker.running)
    yield* Metric.update(concurrency, (yield* EngineConfig).concurrency)
    const claimedAt = yield* worker.lastClaimAt
    if (claimedAt !== undefined) yield* Metric.update(lastClaim, claimedAt / 1000)
  })

/**
 * Serves `/metrics` on loopback in Prometheus's text format: resource usage of this process, and all values recorded
 * through Effect's `Metric`. Values are read on each request.
 */
export const serveMetrics = (
  port: number,
  worker: Worker["Service"] | undefined,
): Effect.Effect<void, CommandFailed, Readiness | Scope.Scope> =>
  Effect.gen(function* () {
    const readiness = yield* Readiness
    const delays = monitorEventLoopDelay()
    delays.enable()
    const scrape = Effect.gen(function* () {
      yield* measureProcess(delays)
      if (worker !== undefined) yield* measureWorker(worker)
      yield* Metric.update(ready, (yield* readiness.report).status === "ready" ? 1 : 0)
      return yield* PrometheusMetrics.format()
    })
    const run = Effect.runPromiseWith(yield* Effect.context())
    const server = createServer((request, response) => {
      request.on("error", ignore)
      response.on("error", ignore)
      if (request.method !== "GET" || request.url !== "/metrics") {
        response.writeHead(404).end()
        return
      }
      run(scrape).then(
        (text) => response.writeHead(200, { "content-type": "text/plain; version=0.0.4; charset=utf-8" }).end(text),
        () => response.writeHead(500).end(),
      )
    })
    yield* Effect.acquireRelease(
      Effect.callback<void, CommandFailed>((resume) => {
        // Stays attached as long as the server can fail; only the first failure to listen is reported.
        server.on("error", (cause) =>
          resume(Effect.fail(portProblem({ host: "127.0.0.1", port, setting: "KILN_MANAGEMENT_PORT" }, cause))),
        )
        server.listen(port, "127.0.0.1", () => resume(Effect.void))
      }),
      () =>
        Effect.sync(() => {
          delays.disable()
          server.close()
          server.closeAllConnections()
        }),
    )
    yield* Effect.logInfo(`metrics are served at http://127.0.0.1:${port}/metrics`)
  })
