import { describe, expect, it } from "vitest"
import { declaredMetrics, namesIn, queryableNames, read } from "./metricNames.ts"

const metrics = declaredMetrics()
const queryable = new Set(metrics.flatMap(queryableNames))
const unknownIn = (text: string): ReadonlyArray<string> => [...namesIn(text)].filter((name) => !queryable.has(name))

interface Panel {
  readonly title: string
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number }
  readonly targets?: ReadonlyArray<{ readonly expr: string }>
}
const dashboard = JSON.parse(read("deploy/grafana/kiln.json")) as { readonly panels: ReadonlyArray<Panel> }
const queries = dashboard.panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr))
const rules = read("deploy/prometheus/kiln-alerts.yml")

describe("the names of metrics", () => {
  it("follow the conventions of Prometheus", () => {
    expect(metrics.length).toBeGreaterThan(40)
    expect(new Set(metrics.map(({ name }) => name)).size).toBe(metrics.length)
    for (const { name, type } of metrics) {
      expect(name.endsWith("_total"), name).toBe(type === "counter")
      expect(name, name).not.toMatch(/_(ms|milliseconds|minutes|count|bucket|sum)(_|$)|_info_/)
      expect(name.endsWith("_seconds") || type !== "histogram", name).toBe(true)
    }
  })

  it("are those of the dashboard, the alerts and their tests", () => {
    expect(queries.length).toBeGreaterThan(40)
    expect(unknownIn(queries.join("\n"))).toEqual([])
    expect(unknownIn(rules)).toEqual([])
    expect(unknownIn(read("deploy/prometheus/kiln-alerts.test.yml"))).toEqual([])
    // The check itself sees a name that does not exist.
    expect(unknownIn("rate(kiln_jobs_creatd_total[5m])")).toEqual(["kiln_jobs_creatd_total"])
  })

  it("are all in the guide, and those of the guide exist", () => {
    const guide = read("docs/guides/observability.md")
    const shown = namesIn(guide)
    expect(metrics.map(({ name }) => name).filter((name) => !shown.has(name))).toEqual([])
    const known = new Set([...queryable, ...metrics.map(({ name }) => name)])
    expect([...shown].filter((name) => !known.has(name))).toEqual([])
  })
})

describe("the dashboard", () => {
  it("has panels that do not overlap, each with a query", () => {
    const places = dashboard.panels.flatMap(({ gridPos: { h, w, x, y } }) =>
      Array.from({ length: w * h }, (_, n) => `${x + (n % w)} ${y + Math.floor(n / w)}`),
    )
    expect(new Set(places).size).toBe(places.length)
    expect(new Set(dashboard.panels.map(({ title }) => title)).size).toBe(dashboard.panels.length)
  })

  it("selects by job everywhere, so that several installations can share a Prometheus", () => {
    for (const query of queries)
      for (const [selector] of query.matchAll(/\b(?:kiln|process|nodejs)_[a-z0-9_]+(\{[^}]*\})?/g))
        expect(selector, query).toContain('job="$job"')
  })
})

describe("the alerts", () => {
  it("each have a severity, a summary and a description", () => {
    const alerts = rules.split("- alert: ").slice(1)
    expect(alerts.length).toBeGreaterThan(10)
    for (const alert of alerts)
      expect(alert).toMatch(/expr:[\s\S]*severity: (critical|warning)[\s\S]*summary: \S[\s\S]*description: \S/)
  })
})
