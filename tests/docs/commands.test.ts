import { readFileSync } from "node:fs"
import { join } from "node:path"
import { expect, it } from "vitest"
import { repository } from "../support/plantTree.ts"
import { repositoryFiles } from "../tidy/TidyFile.ts"
import { unknownScripts } from "./commands.ts"

const { scripts }: { scripts: Record<string, string> } = JSON.parse(
  readFileSync(join(repository, "package.json"), "utf8"),
)

it.each([
  ["npx -y pnpm@12 start   # runs it", 0],
  ["npx -y pnpm@12 begin", 1],
  ["Run `npx -y pnpm@12 begin`, then `pnpm start`.", 1],
  ["`pnpm openapi:chekc`", 1],
  ["`pnpm run demo` or `npx -y pnpm@12 install`", 0],
  ["It needs pnpm and nothing else.", 0],
  ["npx -y pnpm@12 -r publish", 0],
])("missing scripts are found: %s", (text, findings) => {
  expect(unknownScripts({ path: "a.md", text }, scripts)).toHaveLength(findings)
})

it("documentation names existing scripts", () => {
  const documents = repositoryFiles(repository).filter(({ path }) => path.endsWith(".md") && path !== "CHANGELOG.md")
  expect(documents.flatMap((document) => unknownScripts(document, scripts))).toEqual([])
})

it("the first screen of the README runs existing scripts", () => {
  const [screen = ""] = readFileSync(join(repository, "README.md"), "utf8").split("\n## ")
  const told = [...screen.matchAll(/npx -y pnpm@12 ([\w:-]+)/g)].map(([, name = ""]) => name)
  expect(told.length).toBeGreaterThan(1)
  expect(Object.keys(scripts)).toEqual(expect.arrayContaining(told))
})
