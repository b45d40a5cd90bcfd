import { spawnSync } from "node:child_process"
import { globSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { applyEvent, type JobTransition, jobTransitions } from "@kiln/core/rules"
import { describe, expect, it } from "vitest"
import { describeStateMachine, withDiagram } from "../scripts/stateMachine.ts"
import { plantTree, repository } from "./support/plantTree.ts"

const read = (path: string): string => readFileSync(join(repository, path), "utf8")

const { diagram, page } = describeStateMachine()

describe("the page of states", () => {
  it("has a row for every event, and the diagram", () => {
    for (const [event, { verb }] of Object.entries(jobTransitions))
      expect(page).toContain(`| \`${event}\` | \`${verb}\``)
    expect(page).toContain(diagram)
  })

  it("shows what cancelling does", () => {
    expect(page).toContain("| `canceled` | `status`, `token`, (`held`), `claimableAt`,")
    expect(page).toContain("| unfinished | only the status |")
    expect(diagram).toContain("queued --> failed: expired, canceled")
    expect(diagram).toContain("running --> failed: abandoned, failed, expired, canceled")
  })

  const { completed } = jobTransitions
  it.each<[string, Partial<JobTransition>]>([
    ["verb", { verb: "finishJobs" }],
    ["guard", { guard: "unfinished" }],
    ["meaning", { meaning: "another" }],
  ])("follows the table: %s", (_, change) => {
    expect(describeStateMachine({ ...jobTransitions, completed: { ...completed, ...change } }).page).not.toBe(page)
  })

  it.each<[string, Partial<JobTransition>]>([
    ["from", { from: ["queued", "processing"] }],
    ["to", { to: "failed" }],
    ["token", { token: "kept" }],
  ])("is refused where the table differs from the moves: %s", (_, change) => {
    expect(() => describeStateMachine({ ...jobTransitions, completed: { ...completed, ...change } })).toThrow(
      "the table's row of `completed` differs from what applyEvent does",
    )
  })

  it("is refused where a move of the table never happens", () => {
    const withoutCancel: typeof applyEvent = (job, event, now) =>
      event.event === "canceled" ? undefined : applyEvent(job, event, now)
    expect(() => describeStateMachine(jobTransitions, withoutCancel)).toThrow("row of `canceled` differs")
  })

  it("is refused where a status goes backwards", () => {
    const back: typeof applyEvent = (job, event, now) => {
      const after = applyEvent(job, event, now)
      return after && event.event === "released" ? { ...after, status: "queued" } : after
    }
    const rows = { ...jobTransitions, released: { ...jobTransitions.released, to: "queued" } } as const
    expect(() => describeStateMachine(rows, back)).toThrow("`released` takes a job back from processing to queued")
  })
})

describe("the diagram of another page", () => {
  it("is replaced, and nothing else", () => {
    const text = "before\n```mermaid\nstateDiagram-v2\n  a --> b: c\n```\nafter `x`\n```mermaid\nflowchart\n```\n"
    const replaced = withDiagram(text, diagram)
    expect(replaced).toBe(`before\n${diagram}\nafter \`x\`\n\`\`\`mermaid\nflowchart\n\`\`\`\n`)
    expect(withDiagram(replaced, diagram)).toBe(replaced)
  })

  it("must exist exactly once", () => {
    expect(() => withDiagram("no diagram", diagram)).toThrow("found 0")
    expect(() => withDiagram(`${diagram}\n${diagram}`, diagram)).toThrow("found 2")
  })
})

describe("state-machine:check", () => {
  const sources = globSync("packages/core/src/**/*.ts", { cwd: repository })
  const others = ["scripts/stateMachine.ts", "scripts/difference.ts", "docs/state-machine.md", "ARCHITECTURE.md"]
  const real = Object.fromEntries([...sources, ...others].map((path) => [path, read(path)]))
  const table = "packages/core/src/domain/JobTransition.ts"

  const run = (root: string, ...args: ReadonlyArray<string>) => {
    const script = join(root, "scripts/stateMachine.ts")
    const { status, stdout, stderr } = spawnSync(process.execPath, ["--conditions=@kiln/source", script, ...args], {
      encoding: "utf8",
      timeout: 20_000,
    })
    return { status, output: `${stdout}${stderr}` }
  }

  it("passes for the committed page", () => {
    using tree = plantTree(real)
    expect(run(tree.root, "--check")).toEqual({
      status: 0,
      output: "docs/state-machine.md is up to date\nARCHITECTURE.md is up to date\n",
    })
  })

  it.each([
    ["a word", 'meaning: "a heartbeat renews the lease"', 'meaning: "a heartbeat"', ["docs/state-machine.md"]],
    [
      "an arrow",
      "return isOverdue(job, now) && !isLost(job, now)",
      "return isOverdue(job, now) && !job.held",
      ["docs/state-machine.md", "ARCHITECTURE.md"],
    ],
    ["what a move does", "attempts: job.attempts + 1,", "", ["docs/state-machine.md"]],
  ])("fails when the moves changed: %s", (_, from, to, stale) => {
    const changed = read(table).replace(from, to)
    expect(changed).not.toBe(read(table))
    using tree = plantTree({ ...real, [table]: changed })
    const { output, status } = run(tree.root, "--check")
    expect(status, output).toBe(1)
    expect([...output.matchAll(/^(\S+) is out of date from line \d+: run/gm)].map(([, name]) => name)).toEqual(stale)
  })

  it("does not compile with an event that is not described", () => {
    const changed = read(table).replace('| { readonly event: "erased" }', '$&\n  | { readonly event: "paused" }')
    const configuration = JSON.stringify({ extends: "./tsconfig.json", include: ["scripts"] })
    const more = { "tsconfig.json": read("tsconfig.json"), "tsconfig.pages.json": configuration }
    using tree = plantTree({ ...real, ...more, [table]: changed })
    const compiler = join(repository, "node_modules/typescript/bin/tsc")
    const { stdout } = spawnSync(process.execPath, [compiler, "-p", "tsconfig.pages.json"], {
      cwd: tree.root,
      encoding: "utf8",
    })
    const places = [...stdout.matchAll(/^(\S+)\(\d+,\d+\): error TS.*paused/gm)].map(([, file]) => file)
    expect(new Set(places), stdout).toEqual(new Set([table, "scripts/stateMachine.ts"]))
    // A row of the table, the guard's lookup and the effect on a job are missing.
    expect(places.length).toBeGreaterThan(2)
  })

  it("fails if a page was edited by hand, until it is generated again", () => {
    using tree = plantTree(real)
    const page = join(tree.root, "docs/state-machine.md")
    writeFileSync(page, readFileSync(page, "utf8").replace("never goes backwards", "goes forwards"))
    expect(run(tree.root, "--check").status).toBe(1)
    expect(run(tree.root).status).toBe(0)
    expect(readFileSync(page, "utf8")).toBe(read("docs/state-machine.md"))
  })
})
