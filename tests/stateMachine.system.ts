import { spawnSync } from "node:child_process"
import { globSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { type JobTransition, jobTransitions } from "@kiln/core/domain"
import { describe, expect, it } from "vitest"
import { describeStateMachine, diagramOf, withDiagram } from "../scripts/stateMachine.ts"
import { plantTree, repository } from "./support/plantTree.ts"

const read = (path: string): string => readFileSync(join(repository, path), "utf8")

describe("the page of states", () => {
  const page = describeStateMachine(jobTransitions)

  it("has a row for every event, and the diagram", () => {
    for (const [event, { verb }] of Object.entries(jobTransitions))
      expect(page).toContain(`| \`${event}\` | \`${verb}\``)
    expect(page).toContain(diagramOf(jobTransitions))
  })

  const { completed } = jobTransitions
  it.each<[string, Partial<JobTransition>]>([
    ["verb", { verb: "finishJobs" }],
    ["from", { from: ["queued", "processing"] }],
    ["to", { to: "failed" }],
    ["guard", { guard: "none" }],
    ["token", { token: "kept" }],
    ["meaning", { meaning: "another" }],
  ])("says another thing when the table does: %s", (_, change) => {
    expect(describeStateMachine({ ...jobTransitions, completed: { ...completed, ...change } })).not.toBe(page)
  })

  it("grows and shrinks with the table", () => {
    const { completed: _, ...fewer } = jobTransitions
    const less = describeStateMachine(fewer)
    expect(less).not.toContain("completeJobs")
    expect(diagramOf(fewer)).not.toContain("done: completed")
    const more = { ...jobTransitions, canceled: { ...completed, verb: "cancelJobs", from: ["queued"] } } as const
    expect(describeStateMachine(more)).toContain("| `canceled` | `cancelJobs` | `queued` |")
    expect(diagramOf(more)).toContain("queued --> done: canceled")
  })

  it("is refused where a status would go backwards", () => {
    const back = { ...jobTransitions.released, to: "queued" } as const
    expect(() => describeStateMachine({ ...jobTransitions, released: back })).toThrow(
      "a status goes backwards: none -> queued -> processing -> queued",
    )
  })
})

describe("the diagram of another page", () => {
  it("is replaced, and nothing else", () => {
    const text = "before\n```mermaid\nstateDiagram-v2\n  a --> b: c\n```\nafter `x`\n```mermaid\nflowchart\n```\n"
    const replaced = withDiagram(text, diagramOf(jobTransitions))
    expect(replaced).toBe(`before\n${diagramOf(jobTransitions)}\nafter \`x\`\n\`\`\`mermaid\nflowchart\n\`\`\`\n`)
    expect(withDiagram(replaced, diagramOf(jobTransitions))).toBe(replaced)
  })

  it("has to be there, once", () => {
    const diagram = diagramOf(jobTransitions)
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

  it("passes for what is committed", () => {
    using tree = plantTree(real)
    expect(run(tree.root, "--check")).toEqual({
      status: 0,
      output: "docs/state-machine.md is up to date\nARCHITECTURE.md is up to date\n",
    })
  })

  it.each([
    ["a word", 'meaning: "heartbeat"', 'meaning: "beat"', ["docs/state-machine.md"]],
    ["an arrow", 'from: ["done", "failed"]', 'from: ["done"]', ["docs/state-machine.md", "ARCHITECTURE.md"]],
    ["what a move does", "attempts: job.attempts + 1,", "", ["docs/state-machine.md"]],
  ])("fails when the table moved on by %s", (_, from, to, stale) => {
    const changed = read(table).replace(from, to)
    expect(changed).not.toBe(read(table))
    using tree = plantTree({ ...real, [table]: changed })
    const { output, status } = run(tree.root, "--check")
    expect(status, output).toBe(1)
    expect([...output.matchAll(/^(\S+) is out of date from line \d+: run/gm)].map(([, name]) => name)).toEqual(stale)
  })

  it("fails when a page was written by hand, until it is generated again", () => {
    using tree = plantTree(real)
    const page = join(tree.root, "docs/state-machine.md")
    writeFileSync(page, readFileSync(page, "utf8").replace("never claimed", "not claimed"))
    expect(run(tree.root, "--check").status).toBe(1)
    expect(run(tree.root).status).toBe(0)
    expect(readFileSync(page, "utf8")).toBe(read("docs/state-machine.md"))
  })
})
