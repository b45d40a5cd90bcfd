import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import type { Measured } from "../measure.ts"
import { bestPeer, type Figures, headingOf, number, valueOf } from "./figures.ts"
import { plot } from "./plot.ts"
import { costs, engines, introduction, method, options, users } from "./prose.ts"
import { withSpread } from "./table.ts"
import { judge } from "./targets.ts"

const titleOf = (one: Measured): string => `${headingOf(one)}, ${one.metric.unit}`

const row = (cells: ReadonlyArray<string>): string => `| ${cells.join(" | ")} |`

/** How busy the load generator was says whether a figure is good, which `--json` has. */
const rowsOf = (figures: Figures, group: string) => figures.rows(group).filter(([first]) => first?.metric.unit !== "%")

const ratioTo = (figures: ReadonlyArray<Measured>, other: number): string => {
  const ratio = valueOf(figures.find(({ subject }) => subject.role === "kiln")) / other
  return Number.isNaN(ratio) ? "–" : number(ratio)
}

/** A table with a column for each engine. */
const engineTable = (figures: Figures, group: string): string => {
  // Rows with kiln alone compare nothing: `--json` has them. The first table has those that applications see.
  const rows = rowsOf(figures, group).filter(
    (one) => one[0]?.isRealistic !== true && one.some(({ subject }) => subject.role !== "kiln"),
  )
  const names = [...new Set(rows.flatMap((one) => one.map(({ subject }) => subject.name)))]
  const lines = rows.map((one) => {
    const [first] = one
    const cells = names.map((name) => {
      const found = one.find(({ subject }) => subject.name === name)
      return found === undefined ? "–" : withSpread(found)
    })
    return row([first === undefined ? "" : titleOf(first), ...cells, ratioTo(one, bestPeer(one))])
  })
  return [row(["", ...names, "kiln / best peer"]), `|${"---|".repeat(names.length + 2)}`, ...lines].join("\n")
}

/** A table of what users see, in which each row names the best engine beside kiln, where one can do it. */
const usersTable = (figures: Figures): string => {
  const rows = [...new Set(figures.all.map(({ group }) => group))]
    .flatMap((group) => rowsOf(figures, group))
    .filter(([first]) => first?.isRealistic === true)
  const lines = rows.flatMap((one) => {
    const kiln = one.find(({ subject }) => subject.role === "kiln")
    if (kiln === undefined) return []
    const best = one.find(
      (other) => other.subject.role === "peer" && other.values.length > 0 && valueOf(other) === bestPeer(one),
    )
    const store = ["SQLite", "Postgres"].includes(kiln.group) ? `${kiln.group}: ` : ""
    const compared =
      best === undefined ? ["–", "–", "–"] : [best.subject.name, withSpread(best), ratioTo(one, valueOf(best))]
    return [row([`${store}${titleOf(kiln)}`, withSpread(kiln), ...compared])]
  })
  return ["| | kiln | best beside it | | kiln / that |", "|---|---|---|---|---|", ...lines].join("\n")
}

/** A table that names in each row what kiln is compared with. */
const limitTable = (figures: Figures, groups: ReadonlyArray<string>): string => {
  const lines = groups
    .flatMap((group) => rowsOf(figures, group))
    .filter(([first]) => first?.isRealistic !== true)
    .flatMap((one) => {
      const kiln = one.find(({ subject }) => subject.role === "kiln")
      const limits = one.filter(({ subject, values }) => subject.role === "limit" && values.length > 0)
      if (kiln === undefined) return []
      if (limits.length === 0) return [row([titleOf(kiln), withSpread(kiln), "–", "–", "–"])]
      return limits.map((limit) =>
        row([titleOf(kiln), withSpread(kiln), limit.subject.name, withSpread(limit), ratioTo(one, valueOf(limit))]),
      )
    })
  return ["| | kiln | compared with | | kiln / that |", "|---|---|---|---|---|", ...lines].join("\n")
}

const targetTable = (figures: Figures): string => {
  const word = { true: "met", false: "**missed**", undefined: "–" }
  const lines = judge(figures).map(({ group, measured, met, wanted, what }) =>
    row([group, what, wanted, measured, word[`${met}`]]),
  )
  return ["| | Work | Wanted | Measured | |", "|---|---|---|---|---|", ...lines].join("\n")
}

interface Plot {
  readonly file: string
  readonly description: string
  readonly metrics: ReadonlyArray<readonly [workload: string, metric: string]>
}

const plots: ReadonlyArray<Plot> = [
  {
    file: "sqlite.svg",
    description: "Creating and draining jobs on SQLite",
    metrics: [
      ["sqlite/create-1", "rate"],
      ["sqlite/create-32", "rate"],
      ["sqlite/queue", "bulk"],
      ["sqlite/queue", "rate"],
      ["sqlite/start-idle", "p50"],
    ],
  },
  {
    file: "postgres.svg",
    description: "Creating and draining jobs on Postgres",
    metrics: [
      ["postgres/create-1", "rate"],
      ["postgres/create-32", "rate"],
      ["postgres/queue", "bulk"],
      ["postgres/queue", "rate"],
      ["postgres/drain-2", "rate"],
      ["postgres/start-idle", "p50"],
      ["postgres/start-300", "p99"],
    ],
  },
  {
    file: "http.svg",
    description: "The HTTP service beside bare node:http",
    metrics: [
      ["http/get", "rate"],
      ["http/post", "rate"],
      ["http/download", "rate"],
      ["http/upload", "rate"],
    ],
  },
]

/** Queues are drawn beside other engines; beside raw work on the database their bars would vanish. */
const drawn = (figures: Figures, { metrics }: Plot) =>
  metrics.map(([workload, metric]) =>
    figures.of(workload, metric).filter(({ subject }) => subject.role !== "limit" || workload.startsWith("http/")),
  )

const image = ({ description, file }: Plot): string => `![${description}](benchmarks/${file})`

export interface PageOptions {
  readonly docs: string
  readonly figures: Figures
  readonly machine: string
  readonly rounds: number
  readonly quick: boolean
  readonly commit: string
}

/** Writes docs/benchmarks.md and its plots. */
export const writePage = ({ commit, docs, figures, machine, quick, rounds }: PageOptions): void => {
  const [sqlite, postgres, http] = plots as readonly [Plot, Plot, Plot]
  const run = `${rounds} ${rounds === 1 ? "round" : "rounds"}${quick ? " with `--quick`, which only gives a first impression" : ""}`
  const page = [
    introduction,
    `## Machine\n\n${machine}\n- kiln at ${commit}, ${run}`,
    `## What users get\n\n${users}\n\n${usersTable(figures)}`,
    `## Targets\n\nThese are kiln's own targets, judged by the tables below.\n\n${targetTable(figures)}`,
    `## SQLite\n\n${image(sqlite)}\n\n${engineTable(figures, "SQLite")}`,
    `## Postgres\n\n${image(postgres)}\n\n${engineTable(figures, "Postgres")}`,
    `## HTTP, files and start\n\n${image(http)}\n\n${limitTable(figures, ["HTTP", "Files", "Program"])}`,
    costs,
    engines,
    method,
    options,
  ]
  mkdirSync(join(docs, "benchmarks"), { recursive: true })
  writeFileSync(join(docs, "benchmarks.md"), `${page.join("\n\n")}\n`)
  for (const one of plots) {
    writeFileSync(join(docs, "benchmarks", one.file), plot(drawn(figures, one), one.description))
  }
}
