import { spawnSync } from "node:child_process"
import { once } from "node:events"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { type Measured, measure, median } from "../bench/measure.ts"
import { readOptions, usage } from "../bench/options.ts"
import { Figures } from "../bench/report/figures.ts"
import { writePage } from "../bench/report/page.ts"
import { tableOf } from "../bench/report/table.ts"
import { judge } from "../bench/report/targets.ts"
import { httpLoad } from "../bench/workloads/httpLoad.ts"
import { quantile, type Subject, subjectsOf } from "../bench/workloads/Workload.ts"

const rate = { key: "rate", title: "", unit: "/s" } as const
const measured = (workload: string, subject: Subject, ...values: ReadonlyArray<number>): Measured => ({
  workload,
  group: "Postgres",
  title: "create",
  metric: rate,
  subject,
  isRealistic: false,
  isDisturbed: false,
  values,
})
const kiln: Subject = { name: "kiln", role: "kiln" }
const pgBoss: Subject = { name: "pg-boss", role: "peer" }
const openworkflow: Subject = { name: "openworkflow", role: "peer" }
const unsafe: Subject = { name: "plainjob, no fsync", role: "unsafe" }

describe("the bench", () => {
  it("takes medians and quantiles", () => {
    expect(median([3, 1, 2])).toBe(2)
    expect(median([4, 1, 2, 3])).toBe(2.5)
    expect(median([])).toBeNaN()
    expect(quantile([5, 1, 4, 2, 3], 0.5)).toBe(3)
    expect(quantile([1, 2], 0.99)).toBe(2)
  })

  it("begins each round with another engine and keeps what the others measured when one fails", async () => {
    const order: Array<string> = []
    const subjects = [kiln, pgBoss, openworkflow]
    const told: Array<string> = []
    const figures = await measure(
      {
        id: "x",
        group: "Postgres",
        title: "x",
        metrics: [rate],
        subjects,
        run: ({ name }) => {
          order.push(name)
          return name === "pg-boss" ? Promise.reject(new Error("refused")) : Promise.resolve({ rate: order.length })
        },
      },
      2,
      (line) => told.push(line),
      () => undefined,
    )
    expect(order).toEqual(["kiln", "pg-boss", "openworkflow", "pg-boss", "openworkflow", "kiln"])
    expect(figures.map(({ failure, values }) => [values, failure])).toEqual([
      [[1, 6], undefined],
      [[], "refused"],
      [[3, 5], undefined],
    ])
    expect(told).toHaveLength(2)
    expect(tableOf(figures)).toMatch(/pg-boss +failed/)
  })

  it("measures again what other programs disturbed, keeps the calmer run, and marks it if that was disturbed too", async () => {
    // What others take while each run lasts.
    const shares = [0.5, 0.01, 0.4, 0.2, 0]
    let runs = 0
    const run = () => Promise.resolve({ rate: (runs += 1) })
    const workload = { id: "x", group: "Postgres", title: "x", metrics: [rate], subjects: [kiln], run }
    const measureOnce = () =>
      measure(
        workload,
        1,
        () => undefined,
        () => ({ share: () => shares.shift() ?? 1 }),
      )
    const figures = [...(await measureOnce()), ...(await measureOnce()), ...(await measureOnce())]
    expect(figures.map(({ isDisturbed, values }) => [values, isDisturbed])).toEqual([
      [[2], false],
      [[4], true],
      [[5], false],
    ])
    expect(tableOf(figures.slice(1, 2))).toMatch(/kiln +4\*/)
  })

  it("compares with the best peer, not with an engine that may lose jobs", () => {
    const id = "postgres/create-32"
    const figures = new Figures([
      measured(id, kiln, 900),
      measured(id, pgBoss, 100),
      measured(id, openworkflow, 500, 400, 300),
      measured(id, unsafe, 9_999),
    ])
    expect(figures.best(id, "rate")).toBe(400)
    const judged = judge(figures).filter(({ met }) => met !== undefined)
    expect(judged.map(({ measured, met }) => [measured, met])).toEqual([
      ["2.25×", true],
      ["9×", true],
    ])
    const less = judge(new Figures([measured(id, kiln, 700), measured(id, pgBoss, 100)]))
    expect(less.filter(({ met }) => met === false).map(({ wanted }) => wanted)).toEqual(["at least 8 × pg-boss"])
  })

  it("marks the engines that may lose jobs, and measures another checkout beside this one", () => {
    const bench = { hasBase: true } as Parameters<typeof subjectsOf>[0]
    expect(subjectsOf(bench, ["plainjob, fsync", "plainjob, no fsync"], true).map(({ role }) => role)).toEqual([
      "kiln",
      "base",
      "peer",
      "unsafe",
      "limit",
    ])
  })

  it("writes a page and plots that are well-formed", () => {
    const docs = mkdtempSync(join(tmpdir(), "kiln-bench-page-"))
    try {
      const figures = new Figures([
        measured("postgres/create-1", kiln, 5),
        measured("postgres/create-1", openworkflow, 4),
      ])
      writePage({ docs, figures, machine: "- a machine", rounds: 1, quick: false, commit: "0000000" })
      const page = readFileSync(join(docs, "benchmarks.md"), "utf8")
      expect(page).toContain("| create, /s | 5 | 4 | 1.25 |")
      expect(page).toContain("| Postgres | create, 1 caller | at least 0.9 × openworkflow | 1.25× | met |")
      const svg = readFileSync(join(docs, "benchmarks/postgres.svg"), "utf8")
      expect(svg.match(/<rect /g)).toHaveLength(2)
      expect(svg).toMatch(/^<svg [^]*<\/svg>\n$/)
    } finally {
      rmSync(docs, { recursive: true })
    }
  })

  it("loads a server over several connections and refuses an unexpected status", async () => {
    let requests = 0
    const server = createServer((request, response) => {
      requests += 1
      response.statusCode = request.url === "/missing" ? 404 : 200
      // Then it has no length.
      if (request.url === "/pieces") response.write("a")
      response.end("b")
    })
    server.listen(0, "127.0.0.1")
    await once(server, "listening")
    const { port } = server.address() as AddressInfo
    const load = (path: string) =>
      httpLoad({
        port,
        connections: 4,
        seconds: 0.1,
        status: 200,
        request: () => Buffer.from(`GET ${path} HTTP/1.1\r\nhost: x\r\n\r\n`),
      })
    for (const path of ["/", "/pieces"]) {
      requests = 0
      const { latenciesMs } = await load(path)
      expect(latenciesMs.length).toBeGreaterThanOrEqual(4)
      expect(requests).toBe(latenciesMs.length)
    }
    await expect(load("/missing")).rejects.toThrow("expected status 200")
    server.close()
  })

  it("refuses options that it does not know", () => {
    expect(readOptions(["--quick"])).toMatchObject({ quick: true, rounds: 1 })
    expect(readOptions([])?.rounds).toBe(3)
    expect(() => readOptions(["--fast"])).toThrow("--fast")
    expect(() => readOptions(["--rounds", "0"])).toThrow("--rounds must be a positive integer")
    expect(() => readOptions(["--only", "("])).toThrow("--only must be a regular expression")
  })

  it("prints its options, and one line for an option that it does not know", () => {
    const bench = (option: string) => {
      const main = join(import.meta.dirname, "../bench/main.ts")
      const run = spawnSync(process.execPath, ["--conditions=@kiln/source", main, option], { encoding: "utf8" })
      return { exit: run.status, stdout: run.stdout, stderr: run.stderr }
    }
    expect(bench("--help")).toEqual({ exit: 0, stdout: `${usage}\n`, stderr: "" })
    const page = readFileSync(join(import.meta.dirname, "../docs/benchmarks.md"), "utf8")
    for (const [option] of page.matchAll(/(?<=^\| `)--\w+/gm)) expect(usage).toContain(option)
    const refused = bench("--fast")
    expect(refused).toMatchObject({ exit: 2, stdout: "" })
    expect(refused.stderr).toMatch(/^bench: .*--fast.*\n$/)
  })
})
