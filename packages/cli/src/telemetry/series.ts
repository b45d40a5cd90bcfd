import * as Context from "effect/Context"
import * as Metric from "effect/Metric"
import type { MetricFamily } from "@kiln/core/worker"

/** The registry that `/metrics` and the OTLP exporter read. */
const context = Context.empty()

/** The state of a series, with the function that adds a value and the one that reads it. */
interface Cell<State> {
  readonly add: (value: number) => void
  readonly read: () => State
}

const inert = { update: () => undefined, modify: () => undefined }

/**
 * Keeps the state of each series here, and registers only the function that reads it: recording is then one look into a map and an addition,
 * a tenth of what an update through the registry costs. The values of labels must come from a bounded set, because each
 * combination is kept until the process ends.
 */
const family = <State>(
  metric: Metric.Metric<number, State>,
  labels: ReadonlyArray<string>,
  makeCell: () => Cell<State>,
): MetricFamily => {
  const cells = new Map<string, Cell<State>>()
  const add = (key: string, values: ReadonlyArray<string>): Cell<State> => {
    const cell = makeCell()
    const attributes = Object.fromEntries(labels.map((label, index) => [label, values[index] ?? ""]))
    Metric.registerUnsafe(Metric.withAttributes(metric, attributes), context, { ...inert, get: cell.read })
    cells.set(key, cell)
    return cell
  }
  return {
    record: (values, value) => {
      const key = values.join("\n")
      ;(cells.get(key) ?? add(key, values)).add(value)
    },
  }
}

export const counter = (name: string, description: string, ...labels: ReadonlyArray<string>): MetricFamily =>
  family<Metric.CounterState<number>>(Metric.counter(name, { description, incremental: true }), labels, () => {
    let count = 0
    return { add: (value) => void (count += value), read: () => ({ count, incremental: true }) }
  })

export const gauge = (name: string, description: string, ...labels: ReadonlyArray<string>): MetricFamily =>
  family<Metric.GaugeState<number>>(Metric.gauge(name, { description }), labels, () => {
    let last = 0
    return { add: (value) => void (last = value), read: () => ({ value: last }) }
  })

/** `boundaries` are the upper bounds of the buckets, inclusive and in order. */
export const histogram = (
  name: string,
  description: string,
  boundaries: ReadonlyArray<number>,
  ...labels: ReadonlyArray<string>
): MetricFamily =>
  family<Metric.HistogramState>(Metric.histogram(name, { description, boundaries }), labels, () => {
    const buckets = boundaries.map(() => 0)
    let [count, sum, min, max] = [0, 0, Infinity, -Infinity]
    return {
      add: (value) => {
        const bucket = boundaries.findIndex((boundary) => value <= boundary)
        if (bucket !== -1) buckets[bucket] = (buckets[bucket] ?? 0) + 1
        count += 1
        sum += value
        min = Math.min(min, value)
        max = Math.max(max, value)
      },
      read: () => {
        let below = 0
        const cumulative = boundaries.map((boundary, index): [number, number] => {
          below += buckets[index] ?? 0
          return [boundary, below]
        })
        return { buckets: cumulative, count, min, max, sum }
      },
    }
  })

/** Registers a gauge that is read only when metrics are. Returns the function that removes it. */
export const readGauge = (name: string, description: string, read: () => number): (() => void) => {
  const hooks = { ...inert, get: () => ({ value: read() }) }
  const { remove } = Metric.registerUnsafe(Metric.gauge(name, { description }), context, hooks)
  return remove
}

/** The same for a number that only grows. */
export const readCounter = (name: string, description: string, read: () => number): (() => void) => {
  const hooks = { ...inert, get: () => ({ count: read(), incremental: true }) }
  const { remove } = Metric.registerUnsafe(Metric.counter(name, { description, incremental: true }), context, hooks)
  return remove
}
