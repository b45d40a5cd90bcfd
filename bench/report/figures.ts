import { type Measured, median } from "../measure.ts"
import type { Metric } from "../workloads/Workload.ts"

/** Formats three significant digits, with thousands separated. */
export const number = (value: number): string =>
  Number.isNaN(value) ? "–" : Number(value.toPrecision(3)).toLocaleString("en", { maximumFractionDigits: 2 })

/** Names a workload and one of its metrics. */
export const headingOf = ({ metric, title }: Measured): string =>
  metric.title === "" ? title : `${title}: ${metric.title}`

/** Returns whether a larger value is better. */
export const isRate = ({ unit }: Metric): boolean => unit === "/s" || unit === "MB/s"

/** Returns the median; NaN if there is no figure. */
export const valueOf = (one: Measured | undefined): number => (one === undefined ? Number.NaN : median(one.values))

/** Returns the best value of the peers that lose no job; NaN without peers. */
export const bestPeer = (figures: ReadonlyArray<Measured>): number => {
  const values = figures
    .filter(({ subject, values }) => subject.role === "peer" && values.length > 0)
    .map((one) => valueOf(one))
  const [first] = figures
  if (first === undefined || values.length === 0) return Number.NaN
  return isRate(first.metric) ? Math.max(...values) : Math.min(...values)
}

/** The figures of a run by workload and metric. */
export class Figures {
  readonly all: ReadonlyArray<Measured>

  constructor(all: ReadonlyArray<Measured>) {
    this.all = all
  }

  /** Returns the figures of all subjects for one metric. */
  of(workload: string, metric: string): ReadonlyArray<Measured> {
    return this.all.filter((one) => one.workload === workload && one.metric.key === metric)
  }

  /** Returns the median of one subject; NaN if it was not measured. */
  value(workload: string, metric: string, subject = "kiln"): number {
    return valueOf(this.of(workload, metric).find(({ subject: { name } }) => name === subject))
  }

  /** Returns the best durable peer's median; NaN if none was measured. */
  best(workload: string, metric: string): number {
    return bestPeer(this.of(workload, metric))
  }

  /** Returns the workloads and metrics that were measured, each with its subjects, in order. */
  rows(group: string): ReadonlyArray<ReadonlyArray<Measured>> {
    const ofGroup = this.all.filter((one) => one.group === group)
    return [...Map.groupBy(ofGroup, ({ metric, workload }) => `${workload} ${metric.key}`).values()]
  }
}
