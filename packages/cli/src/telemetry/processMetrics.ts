import { readdirSync } from "node:fs"
import { monitorEventLoopDelay } from "node:perf_hooks"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { gauge, readCounter, readGauge } from "./series.ts"

const buildInfo = gauge("kiln_build_info", "1, with the version of kiln and of Node", "version", "node_version")

/** Milliseconds between two measurements of the event loop. */
const resolutionMs = 10

/** Open file descriptors; `undefined` where the system does not tell. */
const openFiles = (): number | undefined => {
  try {
    return readdirSync("/proc/self/fd").length
  } catch {
    return undefined
  }
}

/** Registers the metrics of this process until the scope closes, under the names that are usual for Node. */
export const measureProcess = (version: string): Effect.Effect<void, never, Scope.Scope> =>
  Effect.asVoid(
    Effect.acquireRelease(
      Effect.sync(() => {
        buildInfo.record([version, process.versions.node], 1)
        const delays = monitorEventLoopDelay({ resolution: resolutionMs })
        delays.enable()
        // Node measures from one turn of its own timer to the next. A percentile is about the time since it was last read.
        const lag = (percentile: number) => () => {
          const seconds = Math.max(0, delays.percentile(percentile) / 1e9 - resolutionMs / 1_000)
          if (percentile === 99) delays.reset()
          return seconds
        }
        const startedAt = performance.timeOrigin / 1_000
        const removals = [
          readGauge("process_start_time_seconds", "Start time of the process, in Unix seconds", () => startedAt),
          readCounter("process_cpu_seconds_total", "Processor time used, user and system together", () => {
            const { system, user } = process.cpuUsage()
            return (user + system) / 1e6
          }),
          readGauge("process_resident_memory_bytes", "Resident memory", () => process.memoryUsage.rss()),
          readGauge("nodejs_heap_size_used_bytes", "JavaScript heap in use", () => process.memoryUsage().heapUsed),
          readGauge(
            "nodejs_external_memory_bytes",
            "Memory of buffers and of native code",
            () => process.memoryUsage().external,
          ),
          readGauge(
            "nodejs_eventloop_lag_p50_seconds",
            "Median of the event loop's delay since the last reading",
            lag(50),
          ),
          readGauge(
            "nodejs_eventloop_lag_p99_seconds",
            "99th percentile of the event loop's delay since the last reading",
            lag(99),
          ),
          ...(openFiles() === undefined
            ? []
            : [readGauge("process_open_fds", "Open file descriptors", () => openFiles() ?? 0)]),
        ]
        return () => {
          delays.disable()
          for (const remove of removals) remove()
        }
      }),
      (stop) => Effect.sync(stop),
    ),
  )
