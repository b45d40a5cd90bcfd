import { globSync, readFileSync } from "node:fs"
import { join } from "node:path"

export const repository = join(import.meta.dirname, "../../../..")

/** The text of a file of this repository. */
export const read = (path: string): string => readFileSync(join(repository, path), "utf8")

/** A metric, as the sources declare it. */
export interface DeclaredMetric {
  readonly name: string
  readonly type: "counter" | "gauge" | "histogram"
}

const types = {
  counter: "counter",
  readCounter: "counter",
  gauge: "gauge",
  readGauge: "gauge",
  histogram: "histogram",
} as const

/** Every metric that a process may export. */
export const declaredMetrics = (): ReadonlyArray<DeclaredMetric> =>
  globSync("packages/{core,http,cli,adapter-postgres}/src/**/*.ts", { cwd: repository }).flatMap((path) =>
    Array.from(
      read(path).matchAll(/\b(?:Metric\.)?(counter|gauge|histogram|readGauge|readCounter)\(\s*"([a-z0-9_]+)"/g),
      ([, call = "", name = ""]): DeclaredMetric => ({ name, type: types[call as keyof typeof types] }),
    ),
  )

/** The names under which a metric may be queried. */
export const queryableNames = ({ name, type }: DeclaredMetric): ReadonlyArray<string> =>
  type === "histogram" ? [`${name}_bucket`, `${name}_sum`, `${name}_count`] : [name]

/** The names of metrics in expressions. */
export const namesIn = (text: string): ReadonlySet<string> =>
  new Set(Array.from(text.matchAll(/\b(?:kiln|process|nodejs)_[a-z0-9_]+/g), ([name]) => name))
