import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { repository } from "./support/plantTree.ts"

const page = readFileSync(join(repository, "docs/invariants.md"), "utf8")
const rows = [...page.matchAll(/^\| (\d+) \| (.+) \| (.+) \|$/gm)].map(([, number, , suites = ""]) => ({
  number: Number(number),
  files: [...suites.matchAll(/\]\(\.\.\/([^)#]+)\)/g)].map(([, file = ""]) => file),
}))

describe("the page of invariants", () => {
  it("has each promise once", () => {
    const numbers = rows.map(({ number }) => number).toSorted((one, other) => one - other)
    expect(numbers).toEqual(Array.from({ length: 91 }, (_, index) => index + 1))
  })

  it.each(rows)("links the suites of promise $number", ({ files }) => {
    expect(files.length).toBeGreaterThan(0)
    expect(files.filter((file) => !existsSync(join(repository, file)))).toEqual([])
  })
})
