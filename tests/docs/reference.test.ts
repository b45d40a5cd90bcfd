import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { stalePages } from "../../scripts/reference/compare.ts"
import { doorsOfReference } from "../../scripts/reference/doors.ts"
import { referencePages } from "../../scripts/reference/pages.ts"
import { readDoors } from "../../scripts/reference/readDoors.ts"

const files = {
  "packages/kit/dist/index.d.ts": `export * from "./Job.ts";\nexport { open } from "./open.ts";\nexport * as Tools from "./tools.ts";\n`,
  "packages/kit/dist/more.d.ts": `export type { Job as Work } from "./Job.ts";\nexport { JobStore, Lost, secret } from "./ports.ts";\n`,
  "packages/kit/dist/Job.d.ts": `/** One piece of work. */
export interface Job extends About {
    /** Milliseconds. */
    readonly afterMs: number;
}
interface About {
    readonly id: Id;
}
type Id = "job_1";
interface Unneeded {
    readonly never: true;
}
/** Is also a value. */
export type job = Job;
export {};
`,
  "packages/kit/dist/open.d.ts": `/**
 * Opens it.
 * @throws where it cannot
 */
export declare const open: (path: string) => import("./Job.ts").Job;
`,
  "packages/kit/dist/tools.d.ts": `/** Adds. */\nexport declare function add(a: number, b: number): number;\n`,
  "packages/kit/dist/ports.d.ts": `import { Context } from "effect";
declare const JobStore_base: Context.ServiceClass<JobStore, "JobStore", {
    /** Takes one. */
    readonly claim: () => string;
}>;
/** Where jobs are. */
export declare class JobStore extends JobStore_base {
}
/** It is gone. */
export declare class Lost extends Error {
    #private;
    readonly code: string;
}
export declare const secret = 7;
`,
}

describe("the pages of two doors", () => {
  const root = realpathSync(mkdtempSync(join(tmpdir(), "kiln-reference-")))
  const doors = (["index", "more"] as const).map((name) => ({
    name: `@kiln/kit/${name}`,
    page: `${name}.md`,
    forWhom: "Everybody.",
    entry: join(root, `packages/kit/dist/${name}.d.ts`),
  }))
  let pages: ReadonlyMap<string, string>
  beforeAll(() => {
    for (const [path, text] of Object.entries(files)) {
      mkdirSync(dirname(join(root, path)), { recursive: true })
      writeFileSync(join(root, path), text)
    }
    pages = referencePages(doors, readDoors(doors, root))
  })
  afterAll(() => rmSync(root, { recursive: true }))

  const page = (name: string): string => pages.get(name) ?? ""

  it("tell signature, docstring and source of a name", () => {
    expect(page("index.md")).toContain(`### open

Opens it.
@throws where it cannot

\`\`\`cts
const open: (path: string) => Job
\`\`\`

[kit/src/open.ts](../../packages/kit/src/open.ts)
`)
  })

  it("tell members with theirs, and what else one needs to read it", () => {
    expect(page("index.md")).toContain(`### Job

One piece of work.

\`\`\`cts
interface Job extends About {
  /** Milliseconds. */
  readonly afterMs: number
}

interface About {
  readonly id: Id
}

type Id = "job_1"
\`\`\`
`)
    expect(page("index.md")).not.toContain("Unneeded")
  })

  it("group names and link to them, with the anchors that headings of one spelling get", () => {
    expect(page("index.md")).toContain(`- Functions: [\`open\`](#open)
- Namespaces: [\`Tools\`](#tools)
- Types: [\`Job\`](#job), [\`job\`](#job-1)
`)
    expect(page("index.md")).toContain("/** Adds. */\nfunction add(a: number, b: number): number")
  })

  it("know services and errors, with the methods of their base, and hide what is private", () => {
    const [, services = "", values = "", errors = ""] = page("more.md").split("\n## ")
    expect(services).toMatch(/^Services\n[^]*class JobStore extends JobStore_base \{\}\n\n[^]*\/\*\* Takes one. \*\/\n/)
    expect(values).toMatch(/^Values\n[^]*const secret = 7/)
    expect(errors).toMatch(/^Errors\n[^]*class Lost extends Error \{\n {2}readonly code: string\n\}/)
  })

  it("tell each name once", () => {
    expect(page("more.md")).not.toContain("### Work")
    expect(page("more.md")).toContain("## Told elsewhere\n\nFrom [`@kiln/kit/index`](index.md): `Work`.")
  })

  it("are linked from an overview, and are the same each time", () => {
    expect(page("README.md")).toContain("| [`@kiln/kit/more`](more.md) | Everybody. |")
    expect(referencePages(doors, readDoors(doors, root))).toEqual(pages)
    expect([...pages.values()].join("\n")).not.toContain(root)
  })

  it("are missed where a door was not built", () => {
    const unbuilt = [{ name: "@kiln/kit/none", entry: join(root, "packages/kit/dist/none.d.ts") }]
    expect(() => readDoors(unbuilt, root)).toThrow("@kiln/kit/none is not built")
  })

  it("are compared with what is committed", () => {
    const directory = join(root, "docs")
    mkdirSync(directory)
    for (const [name, text] of pages) writeFileSync(join(directory, name), text)
    expect(stalePages(pages, directory)).toEqual([])
    writeFileSync(join(directory, "index.md"), page("index.md").replace("Opens it.", "Shuts it."))
    rmSync(join(directory, "more.md"))
    writeFileSync(join(directory, "old.md"), "")
    expect(stalePages(pages, directory)).toEqual([
      expect.stringMatching(/^index\.md is out of date from line \d+$/),
      "more.md is not there",
      "old.md is of no door",
    ])
  })
})

describe("the list of doors", () => {
  it("has all of them, each with one page and one sentence", () => {
    const doors = doorsOfReference()
    expect(doors.map(({ name }) => name)).toEqual(expect.arrayContaining(["@kiln/core", "@kiln/conformance"]))
    expect(new Set(doors.map(({ page }) => page)).size).toBe(doors.length)
    expect(doors.filter(({ forWhom }) => !forWhom.endsWith("."))).toEqual([])
  })

  it("knows nothing of a door that is new", () => {
    const root = realpathSync(mkdtempSync(join(tmpdir(), "kiln-reference-")))
    mkdirSync(join(root, "packages/kit"), { recursive: true })
    const manifest = { name: "@kiln/kit", exports: { "./new": { types: "./dist/new.d.ts" } } }
    writeFileSync(join(root, "packages/kit/package.json"), JSON.stringify(manifest))
    expect(() => doorsOfReference(root)).toThrow("@kiln/kit/new")
    rmSync(root, { recursive: true })
  })
})
