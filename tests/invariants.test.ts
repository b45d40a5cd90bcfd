import { describe, expect, it } from "vitest"
import { plantedBugs } from "./planted/bugs.ts"
import { pageProblems, parseInvariantsPage } from "./support/invariantsPage.ts"
import { complaints, invariants, page, reality } from "./support/invariantsReality.ts"

describe("the page of invariants", () => {
  it("names exactly the existing tests", () => {
    expect(pageProblems(page, reality)).toEqual([])
  })

  it("names the simulation's invariants, each where it is violated", () => {
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
