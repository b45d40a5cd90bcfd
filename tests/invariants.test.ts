import { existsSync, globSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { mustBeReached } from "@kiln/simulation"
import { describe, expect, it } from "vitest"
import { coreBugs } from "../scripts/plantedBugs/coreBugs.ts"
import { suites } from "../scripts/plantedBugs/suites.ts"
import { describePlantedBugs } from "../scripts/plantedBugs.ts"
import { plantedBugs } from "./planted/bugs.ts"
import { pageProblems, parseInvariantsPage, type Reality } from "./support/invariantsPage.ts"
import { repository } from "./support/plantTree.ts"

const read = (path: string): string | undefined => {
  const file = join(repository, path)
  return existsSync(file) ? readFileSync(file, "utf8") : undefined
}
const page = read("docs/invariants.md") ?? ""

const simulation = globSync("packages/simulation/src/**/*.ts", { cwd: repository }).map((path) => read(path))
const complaints = simulation.flatMap((text = "") => [...text.matchAll(/\.violate\(\s*("[^"]+")?/g)])
const invariants = [...new Set(complaints.flatMap(([, name]) => (name === undefined ? [] : [JSON.parse(name)])))]

const reality: Reality = { read, promises: 84, invariants, reached: mustBeReached }

describe("the page of invariants", () => {
  it("names what is there, and all of it", () => {
    expect(pageProblems(page, reality)).toEqual([])
  })

  it("knows the simulation's invariants: each is named where it is broken", () => {
    expect(complaints.filter(([, name]) => name === undefined)).toEqual([])
    expect(invariants.length).toBeGreaterThan(30)
    for (const { breaks } of plantedBugs) expect(invariants).toContain(breaks)
  })

  it("reads every entry of every row", () => {
    const { promises } = parseInvariantsPage(page)
    const entries = page.split("\n").flatMap((line) => (/^\| \d+ \|/.test(line) ? line.split("<br>") : []))
    expect(promises.flatMap(({ held, open }) => [...held, ...open])).toHaveLength(entries.length)
    expect(entries.length).toBeGreaterThan(150)
  })
})

describe("a page of invariants is refused", () => {
  const file = "packages/cli/test/crash/poison.test.ts"
  const line = (number: number): string => page.split("\n").find((one) => one.startsWith(`| ${number} |`)) ?? ""

  it.each<readonly [what: string, from: string, to: string, problem: string]>([
    ["a file that is gone", "crash/poison.test.ts", "crash/poisson.test.ts", "there is no packages/cli/test/crash/p"],
    [
      "a test of another name",
      "“a job that kills its worker",
      "“a job that shoots its worker",
      `${file} has no “a job`,
    ],
    ["a promise left out", `${line(31)}\n`, "", "promise 31 is there 0 times"],
    ["a promise said twice", `${line(31)}\n`, `${line(31)}\n${line(31)}\n`, "promise 31 is there 2 times"],
    ["a promise too many", "| 84 |", "| 85 |", "promise 85 is there 1 times"],
    ["a promise nobody holds", line(31), "| 31 | something |  |", "promise 31: cannot read"],
    ["a test that is not named", "*processes* [poison]", "*processes*, surely [poison]", "promise 11: cannot read"],
    ["an invariant left out", "\n| fencing | ", "\n| fences | ", "the simulation's invariants: “fencing” is missing"],
    ["an invariant invented", "\n| fencing | ", "\n| luck | x |\n| fencing | ", "“luck” is nowhere else"],
    ["an invariant claimed", "*simulation* “fencing”", "*simulation* “fences”", "the simulation checks no “fences”"],
    ["a state left out", "\n- the queue is full\n", "\n", "the states it must reach: “the queue is full” is missing"],
    ["a state invented", "- event: created", "- event: painted, created", "“event: painted” is nowhere else"],
    ["a gap that is not listed", "- **53**: ", "- ", "the list of what is open: “53: "],
    [
      "a gap that is closed",
      "- **53**: ",
      "- **31**: no test\n- **53**: ",
      "the list of what is open: “31: no test” is",
    ],
  ])("for %s", (_, from, to, problem) => {
    expect(page.split(from)).toHaveLength(2)
    const problems = pageProblems(
      page.replace(from, () => to),
      reality,
    )
    expect(problems.join("\n")).toContain(problem)
  })

  it("for an invariant or a state that is new", () => {
    const more = { ...reality, invariants: [...invariants, "another"], reached: [...mustBeReached, "a new state"] }
    expect(pageProblems(page, more)).toEqual([
      "the simulation's invariants: “another” is missing",
      "the states it must reach: “a new state” is missing",
    ])
  })
})

describe("the page of planted bugs", () => {
  const generated = describePlantedBugs(suites)

  it("is what the tests' data say", () => {
    expect(read("docs/planted-bugs.md")).toBe(generated)
  })

  it("has a row for every bug of every suite, and the test that asserts it", () => {
    for (const { bugs, test } of Object.values(suites)) {
      expect(bugs).not.toEqual([])
      for (const { bug } of bugs) expect(generated).toContain(`\n| ${bug} | `)
      expect(read(test)).toBeDefined()
    }
  })

  it("has each core bug caught in the simulation of the real engine", () => {
    expect(coreBugs).toHaveLength(9)
    for (const { bug, planted } of coreBugs) expect(planted.simulation, bug).toHaveLength(1)
  })

  it("says another thing when a suite does, and fails for a core bug that no suite plants any more", () => {
    const [first, ...others] = suites.simulation.bugs
    const moved = [{ ...first!, caughtBy: "luck" }, ...others]
    expect(describePlantedBugs({ ...suites, simulation: { ...suites.simulation, bugs: moved } })).toContain("| luck |")
    expect(() => describePlantedBugs({ ...suites, simulation: { ...suites.simulation, bugs: others } })).toThrow(
      "Simulation plants no such bug: there is no fence",
    )
  })
})
