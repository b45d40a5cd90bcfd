import { describe, expect, it } from "vitest"
import { plainEnglish } from "./tidy/plainEnglish.ts"
import { exactVersions, linksResolve, noMachinePaths, noRegistryHosts } from "./tidy/repositoryRules.ts"
import { noAmbientEffects, noSilentSkips, noTypeHoles, shortFiles } from "./tidy/sourceRules.ts"
import { type Finding, type TidyFile } from "./tidy/TidyFile.ts"

type Rule = (files: ReadonlyArray<TidyFile>) => Array<Finding>

const one =
  (rule: Rule, path: string) =>
  (text: string): Array<Finding> =>
    rule([{ path, text }])

describe("tidy: every rule finds what it forbids", () => {
  const engine = "packages/core/src/engine/createJob.ts"

  it("long files", () => {
    const long = { path: engine, text: "x\n".repeat(401) }
    expect(shortFiles([{ path: engine, text: "x\n".repeat(400) }], {})).toEqual([])
    expect(shortFiles([long], {})).toHaveLength(1)
    expect(shortFiles([long], { [engine]: "one table" })).toEqual([])
    expect(shortFiles([], { [engine]: "one table" })).toHaveLength(1)
    expect(shortFiles([{ ...long, path: "packages/core/test/CreateJob.test.ts" }], {})).toEqual([])
  })

  it.each([
    "Date.now()",
    "new Date()",
    "new Date( )",
    "Math.random()",
    "console.log(1)",
    "console.error",
    "f(Date.now)",
  ])("ambient effects: %s", (code) => {
    const check = one(noAmbientEffects, engine)
    expect(check(`\nconst x = ${code}\n`)).toEqual([expect.stringContaining(`${engine}:2: `)])
    expect(check(`// instead of ${code}\n/**\n * instead of ${code}\n */`)).toEqual([])
    expect(one(noAmbientEffects, "packages/cli/src/serve.ts")(code)).toEqual([])
    expect(one(noAmbientEffects, "packages/core/test/CreateJob.test.ts")(code)).toEqual([])
  })

  it("ambient effects: dates of a known time are fine", () => {
    expect(one(noAmbientEffects, engine)("new Date(now); new Date(0).toISOString()")).toEqual([])
  })

  it("type holes", () => {
    const check = one(noTypeHoles, engine)
    expect(check("const x = y as unknown as Job")).toHaveLength(1)
    expect(check(`/** Is as unknown as one that never was. */\nit("is as unknown as ever")`)).toEqual([])
    expect(check("// @ts-expect-error")).toHaveLength(1)
    expect(check("// @ts-expect-error an id of another kind is refused")).toEqual([])
  })

  it.each([
    ["it.only('x', f)", 1],
    ["describe.only('x', f)", 1],
    ["it.effect.only('x', f)", 1],
    ["// the only one that matters\nit.only('x', f)", 1],
    ["it.skip('x', f)", 1],
    ["it.effect.skip('x', f)", 1],
    ["it.skipIf(condition)('x', f)", 1],
    ["it.todo('x')", 1],
    ["if (missing) return skip()", 1],
    ["if (missing) return skip('no')", 1],
    ["// needs a real Postgres, which is not there on Windows\nit.skipIf(windows)('x', f)", 0],
    ["it.runIf(linux)('x', f) // strace exists on Linux alone", 0],
    ["if (missing) return skip('no older Node is on the PATH')", 0],
    ["context.skip(missing, 'no older Node is on the PATH')", 0],
    ["context.skip(!strace, NO_STRACE)", 0],
    ["if (missing) return skip(noStrace)", 0],
    ["if (missing) return skip(missing)", 1],
    ["Stream.drop(1); it('skips erased jobs', f)", 0],
  ])("silent skips: %s", (text, findings) => {
    expect(one(noSilentSkips, "packages/core/test/CreateJob.test.ts")(text)).toHaveLength(findings)
  })

  it.each([
    ["see /work/main/README.md", 1],
    ['import "/home/someone/x.ts"', 1],
    ["cd /root/kiln", 1],
    ["`/tmp/x.log`", 1],
    ["(/Users/someone/kiln)", 1],
    ["https://example.com/home/page", 0],
    ["GET /v1/work/tmp", 0],
    ["packages/core/tmp/x", 0],
    ["${directory}/tmp/x", 0],
  ])("machine paths: %s", (text, findings) => {
    expect(one(noMachinePaths, "docs/guide.md")(text)).toHaveLength(findings)
  })

  it.each([
    ["// Whoever stops takes it back.", 1],
    ["/** regardless of whosever they are */", 1],
    ["/** Who stops in order takes it back. */", 1],
    ["// The entry is withdrawn; who crashes leaves it.", 1],
    ["// Who may import whom?", 0],
    ["/** The caller who sent the request. */", 0],
    ["/** What does not pass is refused. */", 1],
    ["/**\n * A first sentence. What\n * cannot be read is skipped.\n */", 1],
    ["## What is kiln?", 0],
    ["/** What to draw; counted in code points. */", 0],
    ["/** `undefined` where there is none. */", 1],
    ["/** None of the rows is read. */", 0],
    ["`uses of images what is no whole number`", 1],
    ["/** A lease that is no longer held. */", 0],
    ["/** There is no row for this job. */", 0],
    [`describe("a kind of one's own", f)`, 1],
    [`it("waits for ever", f)`, 1],
    [`it("waits forever", f)`, 0],
    ["// The jobs in\n// hand go on.", 1],
    ["// The jobs in\n// progress go on, hand in hand.", 1],
    ["/** Again has the same answer. */", 1],
    ["// owned by someone else than the caller", 1],
    ["// reads it anew", 1],
    ["/** Reports what became of the job. */", 1],
    ["/** Reports the outcome of the job. */", 0],
    ["// the next worker goes on with it", 1],
    ["// the next worker continues it", 0],
    ["/** Made up where none is given. */", 1],
    ["/** What becomes of a job whose worker died. */", 1],
    ["// looks at what has become\n// of it", 1],
    ["// What happens to a job whose worker died?", 0],
    ["/** Creates a job and answers with its id. */", 1],
    ["// the server answers with 503", 0],
    ["// puts versions in the place of ranges", 1],
    ["// a page in place of the form", 0],
    ["// Adding a door means adding it to both.", 1],
    ["// the office next door", 0],
  ])("awkward English: %s", (text, findings) => {
    expect(one(plainEnglish, "packages/core/src/worker/Worker.ts")(text)).toHaveLength(findings)
    expect(one(plainEnglish, "pnpm-lock.yaml")(text)).toEqual([])
  })

  it("awkward English: the finding names the line, the phrase and a replacement", () => {
    expect(one(plainEnglish, "docs/guide.md")("# Guide\n\nThe jobs in\nhand go on.\n")).toEqual([
      'docs/guide.md:3: "in hand": in progress, claimed',
    ])
  })

  it.each([
    ["pnpm-lock.yaml", "    resolution: {integrity: sha512-x, tarball: https://host.example/x.tgz}", 1],
    ["packages/core/package-lock.json", `"resolved": "file:x"`, 1],
    ["pnpm-lock.yaml", "    resolution: {integrity: sha512-x}\n  node-mock-http@1.0.5:", 0],
    [".npmrc", "registry=https://host.example/", 1],
    ["pnpm-workspace.yaml", "registry: https://host.example/", 1],
    ["docs/guide.md", "from registry.example.com", 1],
    ["docs/guide.md", "published to the npm registry: see https://example.com", 0],
  ])("registry hosts: %s %s", (path, text, findings) => {
    expect(one(noRegistryHosts, path)(text)).toHaveLength(findings)
  })

  it("inexact versions", () => {
    const manifest = (dependencies: Readonly<Record<string, string>>): Array<Finding> =>
      one(exactVersions, "packages/core/package.json")(JSON.stringify({ dependencies }))
    expect(manifest({ a: "1.2.3", b: "catalog:", c: "workspace:^", d: "4.0.0-rc.1", node: "^24" })).toEqual([])
    for (const version of ["^1.2.3", "~1.2.3", "1.x", "1", ">=1.2.3", "latest", "*", "github:a/b", "npm:x@1.2.3"]) {
      expect(manifest({ a: version }), version).toHaveLength(1)
    }
    const workspace = one(exactVersions, "pnpm-workspace.yaml")
    expect(
      workspace("packages:\n  - x\n\ncatalog:\n  a: 1.2.3\n  # why\n  '@b/c': 4.0.0-rc.1\n\nextra:\n  d: ^1.0.0\n"),
    ).toEqual([])
    expect(workspace(`catalog:\n  a: ^1.2.3\n  "@b/c": latest\n`)).toHaveLength(2)
    expect(workspace(`catalogs:\n  next:\n    a: ~1.2.3\n`)).toHaveLength(1)
  })

  it("links that lead nowhere", () => {
    const other = { path: "docs/guides/embed.md", text: "# Embed it!\n## Steps\n## Steps\n```\n# not a heading\n```\n" }
    const findings = (text: string): Array<Finding> => linksResolve([other, { path: "docs/README.md", text }])
    for (const good of [
      "[x](guides/embed.md)",
      "[x](./guides/embed.md#embed-it)",
      "[x](guides/embed.md#steps-1)",
      "[x](/docs/guides/embed.md)",
      "[x](guides)",
      "[x](guides/)",
      "[x](https://example.com/y.md)",
      "[x](mailto:a@example.com)",
      "# Here\n[x](#here)",
      "`[x](nowhere.md)`",
      "```md\n[x](nowhere.md)\n```",
      "[ref]: guides/embed.md",
    ]) {
      expect(findings(good), good).toEqual([])
    }
    for (const bad of [
      "[x](guides/embedded.md)",
      "[x](../guides/embed.md)",
      "![x](image.png)",
      "[x](guides/embed.md#not-a-heading)",
      "[x](guides/embed.md#steps-2)",
      "[x](#there)",
      "[ref]: nowhere.md",
      '[x](nowhere.md "title")',
    ]) {
      expect(findings(bad), bad).toHaveLength(1)
    }
  })
})
