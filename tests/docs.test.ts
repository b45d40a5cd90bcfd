import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { extractSnippets, type Snippet } from "./docs/extractSnippets.ts"
import { notRun } from "./docs/notRun.ts"
import type { Ran } from "./docs/runNode.ts"
import { SnippetWorkshop } from "./docs/SnippetWorkshop.ts"
import { repository } from "./support/plantTree.ts"
import { repositoryFiles } from "./tidy/TidyFile.ts"

/** A snippet is small: one that takes longer is waiting for something that does not come. */
const SLOWEST_SNIPPET_MS = 60_000

/** Returns the problem with a snippet's outcome, or undefined. */
const problemWith = ({ output }: Snippet, { exitCode, stdout, stderr }: Ran): string | undefined => {
  if (exitCode !== 0) return `exit code ${exitCode}: ${stderr}`
  const printed = stdout.trimEnd()
  const promised = output?.trimEnd()
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
  const vitest = `import { expect, it } from "vitest"\n`
  const planted = {
    sound: markdown("ts", `const greeting: string = "hello"\nconsole.log(greeting)`, "hello"),
    imports: markdown("ts", `import * as domain from "@kiln/core/domain"\nconsole.log(typeof domain)`, "object"),
    mistyped: markdown("ts", `const n: number = "one"\nconsole.log(n)`),
    mistypedNoRun: markdown("ts no-run", `const n: number = "one"\nconsole.log(n)`),
    misnamed: markdown("ts no-run", `import { noSuchName } from "@kiln/core/domain"\nconsole.log(noSuchName)`),
    throwing: markdown("ts", `throw new Error("broken")`),
    misprinting: markdown("ts", `console.log("one")`, "two"),
    failing: markdown("ts", `process.exitCode = 3\nconsole.log("one")`),
    hanging: markdown("ts", `setInterval(() => {}, 1000)`),
    exiting: markdown("ts", `process.exit(4)`),
    soundTest: markdown("ts", `${vitest}it("adds", () => expect(1 + 1).toBe(2))`),
    failingTest: markdown("ts", `${vitest}it("adds", () => expect(1 + 1).toBe(3))`),
    noTest: markdown("ts", `${vitest}console.log(typeof it, typeof expect)`),
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

  const together = async (cases: ReadonlyArray<Case>, timeoutMs = SLOWEST_SNIPPET_MS) => {
    const ran = await workshop.runTogether(cases.map(at), timeoutMs)
    return cases.map((name) => {
      const result = ran.get(at(name))
      return result === undefined ? "unknown" : problemWith(snippets[at(name)]!, result)
    })
  }

  it.each(["mistyped", "mistypedNoRun", "misnamed"] as const)("by the compiler: %s", (name) => {
    expect(typeErrors[at(name)]).toEqual([expect.stringMatching(/^planted\.md:4:\d+: error TS/)])
  })

  it.each(["sound", "imports", "throwing", "misprinting", "hanging", "soundTest"] as const)(
    "not by the compiler: %s",
    (name) => {
      expect(typeErrors[at(name)]).toEqual([])
    },
  )

  it("by running it, among others that are sound", async () => {
    expect(await together(["sound", "throwing", "imports", "misprinting", "failing"])).toEqual([
      undefined,
      expect.stringContaining("Error: broken"),
      undefined,
      "promised\ntwo\nand printed\none",
      "exit code 3: ",
    ])
  })

  it("by running it, as a test", async () => {
    expect(await together(["soundTest", "failingTest", "noTest"])).toEqual([
      undefined,
      expect.stringContaining("to be 3"),
      expect.stringContaining("exit code 1"),
    ])
  })

  it("by running it alone, where it stops the others or is in the way of their end", async () => {
    expect(await together(["sound", "hanging"], 3_000)).toEqual(["unknown", "unknown"])
    expect(await together(["exiting"])).toEqual(["unknown"])
    const alone = async (name: Case, timeoutMs: number) =>
      problemWith(snippets[at(name)]!, await workshop.run(at(name), timeoutMs))
    expect(await alone("hanging", 500)).toContain("still running after 500 ms")
    expect(await alone("exiting", SLOWEST_SNIPPET_MS)).toBe("exit code 4: ")
    expect(await alone("sound", SLOWEST_SNIPPET_MS)).toBeUndefined()
  })
})

describe("documentation", () => {
  // A page of the changelog says what was true in its time.
  const documents = repositoryFiles(repository).filter(({ path }) => path.endsWith(".md") && path !== "CHANGELOG.md")
  const snippets = documents.flatMap(({ path, text }) => extractSnippets(path, text))
  let workshop: SnippetWorkshop
  let typeErrors: ReadonlyArray<ReadonlyArray<string>>
  let ran: ReadonlyMap<number, Ran>
  beforeAll(async () => {
    workshop = new SnippetWorkshop(repository, snippets)
    const indices = snippets.flatMap(({ runs }, index) => (runs ? [index] : []))
    ;[typeErrors, ran] = await Promise.all([
      workshop.typeErrors(),
      workshop.runTogether(indices, 2 * SLOWEST_SNIPPET_MS),
    ])
  })
  afterAll(() => workshop[Symbol.dispose]())

  it("shows how to use kiln, in snippets that run", () => {
    expect(documents.map(({ path }) => path)).toContain("README.md")
    expect(snippets.filter(({ file, runs }) => runs && file === "README.md").length).toBeGreaterThan(0)
  })

  it("has a reason for each snippet that does not run", () => {
    const counted = Object.groupBy(
      snippets.filter(({ runs }) => !runs),
      ({ file }) => file,
    )
    expect(Object.fromEntries(Object.entries(counted).map(([file, some = []]) => [file, some.length]))).toEqual(
      Object.fromEntries(Object.entries(notRun).map(([file, reasons]) => [file, reasons.length])),
    )
  })

  /** What became of it among the others, if that was well; else, and for who must be alone, what becomes of it alone. */
  const problemOf = async (index: number, snippet: Snippet): Promise<string | undefined> => {
    const result = ran.get(index)
    if (result !== undefined && problemWith(snippet, result) === undefined) return undefined
    return problemWith(snippet, await workshop.run(index, SLOWEST_SNIPPET_MS))
  }

  for (const [index, snippet] of snippets.entries()) {
    it(`${snippet.file}:${snippet.line} ${snippet.runs ? "compiles and runs" : "compiles"}`, async () => {
      expect(typeErrors[index]).toEqual([])
      expect(snippet.runs ? await problemOf(index, snippet) : undefined).toBeUndefined()
    })
  }
})
