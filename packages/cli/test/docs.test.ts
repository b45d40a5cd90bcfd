import { readFileSync } from "node:fs"
import { errorCodes, warningCodes } from "@kiln/core/domain"
import { jobTransitions } from "@kiln/core/rules"
import { describe, expect, it } from "vitest"
import { errorCatalogue, refusalCodes } from "@kiln/client/api"
import { settingNames } from "../src/Settings.ts"

const page = (path: string): string => readFileSync(new URL(`../../../${path}`, import.meta.url), "utf8")

describe("the pages say what the code does", () => {
  const errors = page("docs/errors.md")

  it.each(refusalCodes.map((code) => [code, errorCatalogue[code].status] as const))(
    "docs/errors.md names %s with its status %i",
    (code, status) => {
      expect(errors.replaceAll(/\s+/g, " ")).toMatch(new RegExp(`${status}\\s+\`${code}\``))
    },
  )

  it.each([...errorCodes, ...warningCodes])("docs/errors.md explains %s", (code) => {
    expect(errors).toContain(`\`${code}\``)
  })

  it.each(settingNames)("docs/configuration.md has the setting %s", (name) => {
    expect(page("docs/configuration.md")).toContain(`\`${name}\``)
  })

  it.each(Object.keys(jobTransitions))("ARCHITECTURE.md draws the transition %s", (event) => {
    expect(page("ARCHITECTURE.md")).toMatch(new RegExp(`--> \\w+:.*\\b${event}\\b`))
  })
})
