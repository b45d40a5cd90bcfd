import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { extractSnippets, type Snippet } from "./docs/extractSnippets.ts"
import { notRun } from "./docs/notRun.ts"
import { problemWith, SLOWEST_SNIPPET_MS } from "./docs/problemWith.ts"
import type { Ran } from "./docs/runNode.ts"
import { SnippetWorkshop } from "./docs/SnippetWorkshop.ts"
import { repository } from "./support/plantTree.ts"
import { repositoryFiles } from "./tidy/TidyFile.ts"

describe("documentation", () => {
  // The changelog describes earlier versions.
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

  it("has snippets that run", () => {
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

  /** Returns the result from the shared run if it succeeded; otherwise, and for snippets that must run alone, runs it again alone. */
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
