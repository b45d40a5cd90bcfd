import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { extractSnippets, type Snippet } from "./docs/extractSnippets.ts"
import { SnippetWorkshop } from "./docs/SnippetWorkshop.ts"
import { repository } from "./support/plantTree.ts"
import { repositoryFiles } from "./tidy/TidyFile.ts"

/** A snippet is small: one that takes longer is waiting for something that does not come. */
const SLOWEST_SNIPPET_MS = 60_000

/** What is wrong with running a snippet, or undefined. */
const problemOf = async (workshop: SnippetWorkshop, snippet: Snippet, index: number, timeoutMs: number) => {
  if (!snippet.runs) return undefined
  const { exitCode, stdout, stderr } = await workshop.run(index, timeoutMs)
  if (exitCode !== 0) return `exit code ${exitCode}: ${stderr}`
  const printed = stdout.trimEnd()
  const promised = snippet.output?.trimEnd()
  return promised === undefined || promised === printed ? undefined : `promised\n${promised}\nand printed\n${printed}`
}

const markdown = (info: string, code: string, output?: string): string =>
  [
    "# Guide",
    "",
    `\`\`\`${info}`,
    code,
    "```",
    ...(output === undefined ? [] : ["", "prints", "", "```text output", output, "```"]),
  ].join("\n")

describe("snippets are found", () => {
  it("with their line, their mode and their output", () => {
    const text = [
      markdown("ts", "one()\n\ntwo()", "1\n2"),
      markdown("ts no-run", "three()"),
      markdown("sh", "ls"),
    ].join("\n")
    expect(extractSnippets("a.md", text)).toEqual([
      { file: "a.md", line: 4, code: "one()\n\ntwo()", runs: true, output: "1\n2" },
      { file: "a.md", line: 18, code: "three()", runs: false, output: undefined },
    ])
  })

  it("in a list", () => {
    const [snippet] = extractSnippets("a.md", "1. do\n   ```ts\n   if (x) {\n     one()\n   }\n   ```\n")
    expect(snippet).toMatchObject({ line: 3, code: "if (x) {\n  one()\n}" })
  })

  it("and none slips through", () => {
    expect(() => extractSnippets("a.md", markdown("typescript", "one()"))).toThrow("a.md:3: write `ts`")
    expect(() => extractSnippets("a.md", markdown("js", "one()"))).toThrow("a.md:3: write `ts`")
    expect(() => extractSnippets("a.md", markdown("ts norun", "one()"))).toThrow("a.md:3: `norun` means nothing")
    expect(() => extractSnippets("a.md", "```ts\none()\n")).toThrow("a.md:1: a fence that never ends")
  })
})

describe("a broken snippet is found", () => {
  const planted = {
    sound: markdown("ts", `const greeting: string = "hello"\nconsole.log(greeting)`, "hello"),
    imports: markdown("ts", `import * as domain from "@kiln/core/domain"\nconsole.log(typeof domain)`, "object"),
    mistyped: markdown("ts", `const n: number = "one"\nconsole.log(n)`),
    mistypedNoRun: markdown("ts no-run", `const n: number = "one"\nconsole.log(n)`),
    misnamed: markdown("ts no-run", `import { noSuchName } from "@kiln/core/domain"\nconsole.log(noSuchName)`),
    throwing: markdown("ts", `throw new Error("broken")`),
    notRun: markdown("ts no-run", `throw new Error("never run")`),
    misprinting: markdown("ts", `console.log("one")`, "two"),
    hanging: markdown("ts", `setInterval(() => {}, 1000)`),
  }
  type Case = keyof typeof planted
  const names = Object.keys(planted)
  const snippets = Object.values(planted).flatMap((text) => extractSnippets("planted.md", text))
  const at = (name: Case): number => names.indexOf(name)
  let workshop: SnippetWorkshop
  let typeErrors: ReadonlyArray<ReadonlyArray<string>>
  beforeAll(async () => {
    workshop = new SnippetWorkshop(repository, snippets)
    typeErrors = await workshop.typeErrors()
  })
  afterAll(() => workshop[Symbol.dispose]())

  const problem = (name: Case, timeoutMs = SLOWEST_SNIPPET_MS): Promise<string | undefined> =>
    problemOf(workshop, snippets[at(name)]!, at(name), timeoutMs)

  it.each(["mistyped", "mistypedNoRun", "misnamed"] as const)("by the compiler: %s", (name) => {
    expect(typeErrors[at(name)]).toEqual([expect.stringMatching(/^planted\.md:4:\d+: error TS/)])
  })

  it.each(["sound", "imports", "throwing", "notRun", "misprinting", "hanging"] as const)(
    "not by the compiler: %s",
    (name) => {
      expect(typeErrors[at(name)]).toEqual([])
    },
  )

  it.each([
    ["throwing", "Error: broken"],
    ["misprinting", "promised\ntwo\nand printed\none"],
  ] as const)("by running it: %s", async (name, words) => expect(await problem(name)).toContain(words))

  it("by running it: hanging", async () => {
    expect(await problem("hanging", 500)).toContain("still running after 500 ms")
  })

  it.each(["sound", "imports", "notRun"] as const)("and a sound one is not: %s", async (name) => {
    expect(await problem(name)).toBeUndefined()
  })
})

describe("documentation", () => {
  const documents = repositoryFiles(repository).filter(({ path }) => path.endsWith(".md") && path !== "CHANGELOG.md")
  const snippets = documents.flatMap(({ path, text }) => extractSnippets(path, text))
  let workshop: SnippetWorkshop
  let typeErrors: ReadonlyArray<ReadonlyArray<string>>
  beforeAll(async () => {
    workshop = new SnippetWorkshop(repository, snippets)
    typeErrors = snippets.length === 0 ? [] : await workshop.typeErrors()
  })
  afterAll(() => workshop[Symbol.dispose]())

  it("shows how to use kiln, in snippets that run", () => {
    expect(documents.map(({ path }) => path)).toContain("README.md")
    expect(snippets.filter(({ file, runs }) => runs && file === "README.md").length).toBeGreaterThan(0)
  })

  for (const [index, snippet] of snippets.entries()) {
    it(`${snippet.file}:${snippet.line} ${snippet.runs ? "compiles and runs" : "compiles"}`, async () => {
      expect(typeErrors[index]).toEqual([])
      expect(await problemOf(workshop, snippet, index, SLOWEST_SNIPPET_MS)).toBeUndefined()
    })
  }
})
