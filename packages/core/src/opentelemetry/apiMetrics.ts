import type { MetricFamilies, MetricFamily } from "../worker/metrics/MetricFamilies.ts"
import type { OtelAttributes, OtelBatchCallback, OtelMeter, OtelMetricOptions } from "./OpenTelemetryApi.ts"

const optionsOf = (name: string, description: string): OtelMetricOptions => ({
  description,
  ...(name.endsWith("_seconds") && { unit: "s" }),
})

/** Returns a family whose attributes are made once for each series. */
const family = (labels: ReadonlyArray<string>, record: (value: number, attributes: OtelAttributes) => void) => {
  const series = new Map<string, OtelAttributes>()
  const attributesOf = (values: ReadonlyArray<string>): OtelAttributes => {
    const key = values.join("\n")
    const known = series.get(key)
    if (known !== undefined) return known
    const made = Object.fromEntries(labels.map((label, index) => [label, values[index] ?? ""]))
    series.set(key, made)
    return made
  }
  return { record: (values, value) => record(value, attributesOf(values)) } satisfies MetricFamily
}

/** Metrics of a meter. Gauges are read when the meter's reader collects. */
export interface ApiMetrics extends MetricFamilies {
  /** Brings the gauges up to date before each collection, until the function that it returns is called. */
  readonly observe: (refresh: () => Promise<unknown>) => () => void
}

export const apiMetrics = (meter: OtelMeter): ApiMetrics => {
  const gauges: Array<{ readonly gauge: object; readonly values: ReadonlyMap<OtelAttributes, number> }> = []
  return {
    counter: (name, description, ...labels) => {
      const counter = meter.createCounter(name, optionsOf(name, description))
      return family(labels, (value, attributes) => counter.add(value, attributes))
    },
    gauge: (name, description, ...labels) => {
      const values = new Map<OtelAttributes, number>()
      gauges.push({ gauge: meter.createObservableGauge(name, optionsOf(name, description)), values })
      return family(labels, (value, attributes) => void values.set(attributes, value))
    },
    histogram: (name, description, boundaries, ...labels) => {
      const advice = { explicitBucketBoundaries: [...boundaries] }
      const histogram = meter.createHistogram(name, { ...optionsOf(name, description), advice })
      return family(labels, (value, attributes) => histogram.record(value, attributes))
    },
    observe: (refresh) => {
      const observed = gauges.map(({ gauge }) => gauge)
      const callback: OtelBatchCallback = async (result) => {
        await refresh()
        for (const { gauge, values } of gauges)
          for (const [attributes, value] of values) result.observe(gauge, value, attributes)
      }
      meter.addBatchObservableCallback(callback, observed)
      return () => meter.removeBatchObservableCallback(callback, observed)
    },
  }
}
