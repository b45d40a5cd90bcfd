import { readFileSync } from "node:fs"
import { join } from "node:path"
import { kilnErrors } from "@kiln/core"
import { defaultEngineSettings } from "@kiln/core/effect"
import { describe, expect, it } from "vitest"
import { repository } from "../support/plantTree.ts"

const read = (path: string): string => readFileSync(join(repository, path), "utf8")

describe("docs/errors.md, errors of the embedded engine", () => {
  const section = read("docs/errors.md").split("## Errors of the embedded engine")[1] ?? ""
  const rows = [...section.matchAll(/^\| `(\w+)` \| `(\w+)` \| (yes|no) \| \S/gm)].map(
    ([, code = "", name = "", retryable = ""]) => ({ code, name, retryable }),
  )

  it("lists every error with its code, and whether the call may succeed later", () => {
    const declared = Object.entries(kilnErrors).map(([name, { code, retryable }]) => ({
      code,
      name,
      retryable: retryable ? "yes" : "no",
    }))
    expect(rows).toEqual(declared)
  })
})

describe("docs/configuration.md", () => {
  it.each(Object.keys(defaultEngineSettings))("has the engine's setting %s", (name) => {
    const section = read("docs/configuration.md").split("## Settings of the engine")[1] ?? ""
    expect(section).toMatch(new RegExp(`^\\| .*\`${name}\``, "m"))
  })
})
