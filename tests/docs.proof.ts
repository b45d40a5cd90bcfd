import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { extractSnippets } from "./docs/extractSnippets.ts"
import { problemWith, SLOWEST_SNIPPET_MS } from "./docs/problemWith.ts"
import { SnippetWorkshop } from "./docs/SnippetWorkshop.ts"
import { repository } from "./support/plantTree.ts"

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

  it("and none is missed", () => {
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

  it("by running it, among valid ones", async () => {
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

  it("by running it alone, if it stops the others or prevents their end", async () => {
    expect(await together(["sound", "hanging"], 3_000)).toEqual(["unknown", "unknown"])
    expect(await together(["exiting"])).toEqual(["unknown"])
    const alone = async (name: Case, timeoutMs: number) =>
      problemWith(snippets[at(name)]!, await workshop.run(at(name), timeoutMs))
    expect(await alone("hanging", 500)).toContain("still running after 500 ms")
    expect(await alone("exiting", SLOWEST_SNIPPET_MS)).toBe("exit code 4: ")
    expect(await alone("sound", SLOWEST_SNIPPET_MS)).toBeUndefined()
  })
})
