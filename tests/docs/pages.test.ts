import { readFileSync } from "node:fs"
import { join } from "node:path"
import * as core from "@kiln/core"
import { defaultEngineSettings } from "@kiln/core/effect"
import { describe, expect, it } from "vitest"
import { repository } from "../support/plantTree.ts"

const read = (path: string): string => readFileSync(join(repository, path), "utf8")

/** The members of a union of names that a source declares: a type is not there when a test runs. */
const unionIn = (source: string, type: string): ReadonlyArray<string> => {
  const [, members = ""] = new RegExp(`export type ${type} =((?:\\s*\\| "\\w+")+)`).exec(source) ?? []
  return [...members.matchAll(/"(\w+)"/g)].map(([, name = ""]) => name)
}

describe("docs/errors.md, errors of the embedded engine", () => {
  const section = read("docs/errors.md").split("## Errors of the embedded engine")[1] ?? ""
  const rows = [...section.matchAll(/^\| `(\w+)` \| `(\w+)` \| (yes|no) \| \S/gm)].map(
    ([, code = "", name = "", retryable = ""]) => ({ code, name, retryable }),
  )
  const codes = unionIn(read("packages/core/src/promise/KilnError.ts"), "KilnErrorCode")
  const table = read("packages/core/src/promise/toKilnError.ts")

  it("lists every code once", () => {
    expect(codes.length).toBeGreaterThan(20)
    expect(rows.map(({ code }) => code)).toEqual(codes)
  })

  it.each(rows)("says whether $code may succeed later", ({ code, retryable }) => {
    const error = new core.KilnError(code as core.KilnErrorCode, "")
    expect(error.retryable ? "yes" : "no").toBe(retryable)
  })

  it.each(rows)("names the class of $code", ({ code, name }) => {
    const classes: Readonly<Record<string, unknown>> = { ...core }
    expect(classes[name]).toSatisfy(
      (found) => found === core.KilnError || Object.getPrototypeOf(found) === core.KilnError,
    )
    const own = `class ${name} extends KilnError`
    const makes = `new ${name}("${code}"`
    const source = read("packages/core/src/promise/KilnError.ts")
    const body = source.slice(source.indexOf(own))
    // Either its constructor has the code, or whoever makes it gives one.
    expect(
      [table.replaceAll(/\(\s+/g, "("), body.slice(0, body.indexOf("\n}\n"))].some(
        (text) => text.includes(makes) || text.includes(`super("${code}"`),
      ),
    ).toBe(true)
  })
})

describe("docs/configuration.md", () => {
  it.each(Object.keys(defaultEngineSettings))("has the engine's setting %s", (name) => {
    const section = read("docs/configuration.md").split("## Settings of the engine")[1] ?? ""
    expect(section).toMatch(new RegExp(`^\\| .*\`${name}\``, "m"))
  })
})
