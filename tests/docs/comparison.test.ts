import { readFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { repository } from "../support/plantTree.ts"
import { comparisonRows, engines, problemWithAnswer } from "./comparison.ts"

const page = readFileSync(join(repository, "docs/comparison.md"), "utf8")

describe("the comparison with other job engines", () => {
  const rows = comparisonRows(page)

  it("has forty-five rows, numbered, each with an answer of every engine", () => {
    expect(rows.map(({ number }) => number)).toEqual(Array.from({ length: 45 }, (_, index) => index + 1))
    for (const { answers, number } of rows) {
      expect(Object.keys(answers), `row ${number}`).toEqual(engines)
      expect(Object.values(answers), `row ${number}`).not.toContain("")
    }
  })

  it("proves each of kiln's answers, or says why it is no", () => {
    expect(rows.flatMap(({ answers, number }) => problemWithAnswer(number, answers["kiln"] ?? ""))).toEqual([])
  })

  it("names the version and the documentation of each other engine", () => {
    const sources = page.split("## Sources")[1] ?? ""
    for (const engine of engines.slice(1))
      expect(sources, engine).toMatch(new RegExp(`^\\| ${engine} \\| \\d+\\.\\d+\\.\\d+ \\| .*\\]\\(https://`, "m"))
  })
})

it.each([
  ["yes: everything ([test](../tests/tidy.test.ts))", 0],
  ["partly: half of it ([guide](guides/embed.md#events))", 0],
  ["no: it would take a second database", 0],
  ["no", 1],
  ["no: later", 1],
  ["yes: everything", 1],
  ["partly: half of it", 1],
  ["yes: everything ([site](https://example.com))", 1],
  ["maybe ([test](../tests/tidy.test.ts))", 1],
])("an answer without a proof or a reason is found: %s", (answer, findings) => {
  expect(problemWithAnswer(1, answer)).toHaveLength(findings)
})
