import { describe, expect, it } from "vitest"
import { coreBugs } from "../scripts/plantedBugs/coreBugs.ts"
import { suites } from "../scripts/plantedBugs/suites.ts"
import { describePlantedBugs } from "../scripts/plantedBugs.ts"
import { pageProblems } from "./support/invariantsPage.ts"
import { page, read, reality } from "./support/invariantsReality.ts"

describe("a page of invariants is refused", () => {
  const file = "packages/cli/test/crash/poison.system.ts"
  const line = (number: number): string => page.split("\n").find((one) => one.startsWith(`| ${number} |`)) ?? ""

  it.each<readonly [what: string, from: string, to: string, problem: string]>([
    [
      "a file that is gone",
      "crash/poison.system.ts",
      "crash/poisson.system.ts",
      "there is no packages/cli/test/crash/p",
    ],
    [
      "a test of another name",
      "“a job that kills its worker",
      "“a job that shoots its worker",
      `${file} has no “a job`,
    ],
    ["a promise left out", `${line(31)}\n`, "", "promise 31 is there 0 times"],
    ["a promise without a test", line(31), "| 31 | something |  |", "promise 31: cannot read"],
    ["an invariant left out", "\n| fencing | ", "\n| fences | ", "the simulation's invariants: “fencing” is missing"],
    ["a state invented", "- event: created", "- event: painted, created", "“event: painted” is nowhere else"],
    ["a gap that is not listed", "- **53**: ", "- ", "the list of what is open: “53: "],
  ])("for %s", (_, from, to, problem) => {
    expect(page.split(from)).toHaveLength(2)
    const problems = pageProblems(
      page.replace(from, () => to),
      reality,
    )
    expect(problems.join("\n")).toContain(problem)
  })
})

describe("the page of planted bugs", () => {
  const generated = describePlantedBugs(suites)

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

  it("fails for a core bug that no suite plants", () => {
    const [, ...others] = suites.simulation.bugs
    expect(() => describePlantedBugs({ ...suites, simulation: { ...suites.simulation, bugs: others } })).toThrow(
      "Simulation plants no such bug: no fence: any worker",
    )
  })
})
