import * as Context from "effect/Context"
import * as PrometheusMetrics from "effect/observability/PrometheusMetrics"
import { describe, expect, it } from "vitest"
import { counter, gauge, histogram, readCounter, readGauge } from "../../src/telemetry/series.ts"

const linesOf = (name: string): ReadonlyArray<string> =>
  PrometheusMetrics.formatUnsafe(Context.empty())
    .split("\n")
    .filter((line) => line.includes(name))

describe("series", () => {
  it("counters add up, by their labels", () => {
    const family = counter("test_counted_total", "Counted", "kind", "mode")
    family.record(["a", "live"], 1)
    family.record(["a", "live"], 2.5)
    family.record(["a", 'quo"ted'], 0)
    expect(linesOf("test_counted_total")).toEqual([
      "# HELP test_counted_total Counted",
      "# TYPE test_counted_total counter",
      'test_counted_total{kind="a",mode="live"} 3.5',
      'test_counted_total{kind="a",mode="quo\\"ted"} 0',
    ])
  })

  it("gauges keep the last value", () => {
    const family = gauge("test_measured", "Measured")
    family.record([], 5)
    family.record([], 3)
    expect(linesOf("test_measured").at(-1)).toBe("test_measured 3")
  })

  it("histograms count values up to each bound, inclusive", () => {
    const family = histogram("test_lasted_seconds", "Lasted", [0.1, 1, 10], "kind")
    for (const value of [0.05, 0.1, 0.5, 10, 11]) family.record(["a"], value)
    expect(linesOf("test_lasted_seconds").slice(2)).toEqual([
      'test_lasted_seconds_bucket{kind="a",le="0.1"} 2',
      'test_lasted_seconds_bucket{kind="a",le="1"} 3',
      'test_lasted_seconds_bucket{kind="a",le="10"} 4',
      'test_lasted_seconds_bucket{kind="a",le="+Inf"} 5',
      'test_lasted_seconds_sum{kind="a"} 21.65',
      'test_lasted_seconds_count{kind="a"} 5',
    ])
  })

  it("some are read with the metrics, until they are removed", () => {
    let value = 1
    const removals = [readGauge("test_read", "Read", () => value), readCounter("test_read_total", "Read", () => value)]
    value = 7
    expect(linesOf("test_read").filter((line) => !line.startsWith("#"))).toEqual(["test_read 7", "test_read_total 7"])
    for (const remove of removals) remove()
    expect(linesOf("test_read")).toEqual([])
  })
})
