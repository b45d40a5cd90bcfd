import { describe, expect, it } from "vitest"
import { repository } from "./support/plantTree.ts"
import { longFiles } from "./tidy/longFiles.ts"
import { exactVersions, linksResolve, noMachinePaths, noRegistryHosts } from "./tidy/repositoryRules.ts"
import { noAmbientEffects, noSilentSkips, noTypeHoles, shortFiles } from "./tidy/sourceRules.ts"
import { repositoryFiles } from "./tidy/TidyFile.ts"

describe("tidy: this repository", () => {
  const files = repositoryFiles(repository)

  it("is read", () => {
    const paths = files.map(({ path }) => path)
    expect(paths).toEqual(
      expect.arrayContaining(["package.json", "pnpm-lock.yaml", "pnpm-workspace.yaml", "README.md"]),
    )
    expect(paths.filter((path) => /^packages\/[^/]+\/src\/.*\.ts$/.test(path)).length).toBeGreaterThan(50)
    expect(paths.filter((path) => path.endsWith(".test.ts")).length).toBeGreaterThan(10)
  })

  it("has no long file without a reason", () => expect(shortFiles(files, longFiles)).toEqual([]))
  it("takes time, randomness and messages from Effect", () => expect(noAmbientEffects(files)).toEqual([]))
  it("has no holes in its types", () => expect(noTypeHoles(files)).toEqual([]))
  it("skips no test silently", () => expect(noSilentSkips(files)).toEqual([]))
  it("names no path of one machine", () => expect(noMachinePaths(files)).toEqual([]))
  it("names no registry", () => expect(noRegistryHosts(files)).toEqual([]))
  it("has exact versions", () => expect(exactVersions(files)).toEqual([]))
  it("has links that lead somewhere", () => expect(linksResolve(files)).toEqual([]))
})
