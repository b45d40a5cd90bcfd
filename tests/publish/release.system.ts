import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { manifestProblems } from "../../scripts/publish/packagesCheck.ts"
import { type Manifest, publicPackages } from "../../scripts/publish/publicPackages.ts"
import { changelogOf, raiseVersion, sharedVersion } from "../../scripts/publish/version.ts"
import { plantTree, repository } from "../support/plantTree.ts"

const copied = [".changeset/config.json", "CHANGELOG.md"]
const changeset = (name: string, bump: string): string => `---\n"${name}": ${bump}\n---\n\nSomething new.\n`

describe("the next version", () => {
  it("is one for all packages, whichever of them changed", () => {
    using tree = plantTree({ ".changeset/new-thing.md": changeset("@kiln/media-probe", "minor") }, copied)
    const before = sharedVersion(tree.root).split(".").map(Number)
    const next = `${before[0]}.${(before[1] ?? 0) + 1}.0`
    expect(raiseVersion(tree.root, "2027-01-31")).toBe(next)
    expect(new Set(publicPackages(tree.root).map(({ manifest }) => manifest.version))).toEqual(new Set([next]))
    expect(readFileSync(join(tree.root, "CHANGELOG.md"), "utf8")).toContain(
      `## Unreleased\n\n## ${next} (2027-01-31)\n`,
    )
  })

  it("is not raised without a changeset", () => {
    using tree = plantTree({}, copied)
    const changelog = readFileSync(join(tree.root, "CHANGELOG.md"), "utf8")
    expect(raiseVersion(tree.root, "2027-01-31")).toBeUndefined()
    expect(readFileSync(join(tree.root, "CHANGELOG.md"), "utf8")).toBe(changelog)
  })

  it("is refused if the packages have different versions", () => {
    using tree = plantTree({}, copied)
    const path = join(tree.root, "packages/core/package.json")
    writeFileSync(path, JSON.stringify({ ...JSON.parse(readFileSync(path, "utf8")), version: "9.0.0" }))
    expect(() => raiseVersion(tree.root, "2027-01-31")).toThrow("9.0.0")
  })

  it("is written into the changelog, above the ones before", () => {
    expect(changelogOf("# C\n\n## Unreleased\n\n- new\n\n## 0.1.0\n", "0.2.0", "2027-01-31")).toBe(
      "# C\n\n## Unreleased\n\n## 0.2.0 (2027-01-31)\n\n- new\n\n## 0.1.0\n",
    )
    expect(() => changelogOf("# C\n", "0.2.0", "2027-01-31")).toThrow("Unreleased")
  })
})

describe("a manifest", () => {
  const core: Manifest = JSON.parse(readFileSync(join(repository, "packages/core/package.json"), "utf8"))

  it.each(publicPackages().map(({ manifest }) => [manifest.name, manifest] as const))(
    "is fit for publishing: %s",
    (_, manifest) => {
      expect(manifestProblems(manifest)).toEqual([])
    },
  )

  it("is not if an entry point of the checkout is missing from the package", () => {
    const { "./package.json": _, ...doors } = core.publishConfig?.exports ?? {}
    expect(manifestProblems({ ...core, publishConfig: { exports: doors } })).toHaveLength(1)
    expect(
      manifestProblems({ ...core, exports: { ...core.exports, "./more": { types: "./dist/more.d.ts" } } }),
    ).toHaveLength(1)
    expect(manifestProblems({ ...core, publishConfig: { exports: core.exports } })).toHaveLength(1)
  })

  it("is not if fields are missing", () => {
    const { description: _, license: __, ...silent }: Manifest & Readonly<Record<string, unknown>> = { ...core }
    expect(manifestProblems(silent)).toEqual(['@kiln/core has no "description"', '@kiln/core has no "license"'])
  })
})
