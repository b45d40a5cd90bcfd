import type { Measured } from "../measure.ts"
import { bestPeer, headingOf, number, valueOf } from "./figures.ts"

/** Formats the median with the least and the greatest value behind it, and an asterisk if other programs disturbed it. */
export const withSpread = (one: Measured): string => {
  const { values } = one
  if (values.length === 0) return one.failure === undefined ? "–" : "failed"
  const spread = values.length < 2 ? "" : ` (${number(Math.min(...values))}–${number(Math.max(...values))})`
  return `${number(valueOf(one))}${one.isDisturbed ? "*" : ""}${spread}`
}

/** Formats the figures of one metric, by subject, with kiln's ratio to each. */
const metricTable = (figures: ReadonlyArray<Measured>): string => {
  const [first] = figures
  if (first === undefined) return ""
  const kiln = valueOf(figures.find(({ subject }) => subject.role === "kiln"))
  const rows = figures
    // A subject that lacks a metric without having failed does not have it.
    .filter((one) => one.values.length > 0 || one.failure !== undefined)
    .map((one) => [one.subject.name, withSpread(one), one.subject.role === "kiln" ? "" : number(kiln / valueOf(one))])
  const ratio = kiln / bestPeer(figures)
  const head = `${first.group}: ${headingOf(first)} (${first.metric.unit})`
  const best = Number.isNaN(ratio) ? "" : `   kiln / best peer ${number(ratio)}`
  const lines = rows.map(
    ([name = "", value = "", to = ""]) => `  ${name.padEnd(22)} ${value.padStart(30)} ${to.padStart(10)}`,
  )
  return [`${head}${best}`, ...lines].join("\n")
}

/** Formats the figures of a workload as plain text, a table for each metric. The last column is kiln's value divided by the row's. */
export const tableOf = (figures: ReadonlyArray<Measured>): string =>
  [...Map.groupBy(figures, ({ metric }) => metric.key).values()].map((one) => `${metricTable(one)}\n`).join("\n")
