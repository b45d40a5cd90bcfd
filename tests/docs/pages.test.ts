import { readFileSync } from "node:fs"
import { join } from "node:path"
import { KilnError, type KilnErrorCode } from "@kiln/core"
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
  const classes = read("packages/core/src/embed/KilnError.ts")
  const codes = unionIn(classes, "KilnErrorCode")
  const table = read("packages/core/src/embed/toKilnError.ts")

  it("lists every code once", () => {
    expect(codes.length).toBeGreaterThan(20)
    expect(rows.map(({ code }) => code)).toEqual(codes)
  })

  it.each(rows)("says whether $code may succeed later", ({ code, retryable }) => {
    const error = new KilnError(code as KilnErrorCode, "")
    expect(error.retryable ? "yes" : "no").toBe(retryable)
  })

  it.each(rows)("names the class of $code", ({ code, name }) => {
    const [, thrown] = new RegExp(`new (\\w+)\\(\\s*"${code}"`).exec(table) ?? []
    const [, fixed] =
      new RegExp(`class (\\w+) extends KilnError \\{(?:(?!\\n\\}\\n)[^])*super\\("${code}"`).exec(classes) ?? []
    expect(thrown ?? fixed).toBe(name)
  })
})

describe("docs/configuration.md", () => {
  it.each(Object.keys(defaultEngineSettings))("has the engine's setting %s", (name) => {
    const section = read("docs/configuration.md").split("## Settings of the engine")[1] ?? ""
    expect(section).toMatch(new RegExp(`^\\| .*\`${name}\``, "m"))
  })
})
