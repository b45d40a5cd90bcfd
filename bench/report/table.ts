import { type Measured, median } from "../measure.ts"
import type { Metric } from "../workloads/Workload.ts"

/** Three significant digits, with thousands separated. */
const number = (value: number): string =>
  Number.isNaN(value) ? "–" : Number(value.toPrecision(3)).toLocaleString("en", { maximumFractionDigits: 2 })

/** Whether a larger value is better. */
const isRate = ({ unit }: Metric): boolean => unit === "/s" || unit === "MB/s"

/** The better of two values of a metric. */
const better = (metric: Metric, x: number, y: number): number => (isRate(metric) ? Math.max(x, y) : Math.min(x, y))

const valueOf = (one: Measured | undefined): number => (one === undefined ? Number.NaN : median(one.values))

/** The best peer's median; NaN without peers. */
const bestPeer = (figures: ReadonlyArray<Measured>): number =>
  figures
    .filter(({ subject, values }) => subject.role === "peer" && values.length > 0)
    .map((one) => valueOf(one))
    .reduce(
      (best, value) => (Number.isNaN(best) ? value : better((figures[0] as Measured).metric, best, value)),
      Number.NaN,
    )

const spread = ({ values }: Measured): string =>
  values.length < 2 ? "" : ` (${number(Math.min(...values))}–${number(Math.max(...values))})`

/** The figures of one metric, by subject, with kiln's ratio to each. */
const metricTable = (figures: ReadonlyArray<Measured>): string => {
  const [first] = figures
  if (first === undefined) return ""
  const kiln = valueOf(figures.find(({ subject }) => subject.role === "kiln"))
  // A subject that lacks a metric without having failed does not have it.
  const rows = figures
    .filter((one) => one.values.length > 0 || one.failure !== undefined)
    .map((one) => [
      one.subject.name,
      one.values.length === 0 ? "failed" : `${number(valueOf(one))}${spread(one)}`,
      one.subject.role === "kiln" ? "" : number(kiln / valueOf(one)),
    ])
  const ratio = kiln / bestPeer(figures)
  const head = `${first.group}: ${first.title}, ${first.metric.title} (${first.metric.unit})`
  const best = Number.isNaN(ratio) ? "" : `   kiln / best peer ${number(ratio)}`
  const lines = rows.map(
    ([name = "", value = "", to = ""]) => `  ${name.padEnd(18)} ${value.padStart(30)} ${to.padStart(10)}`,
  )
  return [`${head}${best}`, ...lines].join("\n")
}

/** The figures of a workload as plain text, one table per metric. The last column is kiln's value divided by the row's. */
export const tableOf = (figures: ReadonlyArray<Measured>): string =>
  [...Map.groupBy(figures, ({ metric }) => metric.key).values()].map((one) => `${metricTable(one)}\n`).join("\n")
