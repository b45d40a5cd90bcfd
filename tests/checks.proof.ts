import { spawnSync } from "node:child_process"
import { chmodSync, mkdirSync, readFileSync, symlinkSync } from "node:fs"
import { tmpdir } from "node:os"
import { delimiter, join } from "node:path"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import rules from "../.dependency-cruiser.mjs"
import { parseResults, type Reports, summarize, summaryLine, testCommands } from "../scripts/ciSummary.ts"
import { staticChecks } from "../scripts/staticChecks.ts"
import { extractSnippets } from "./docs/extractSnippets.ts"
import { problemWith } from "./docs/problemWith.ts"
import { SnippetWorkshop } from "./docs/SnippetWorkshop.ts"
import { plantTree, repository } from "./support/plantTree.ts"
import { exactVersions, linksResolve, noMachinePaths, noRegistryHosts } from "./tidy/repositoryRules.ts"
import { noAmbientEffects, noSilentSkips, noTypeHoles, shortFiles } from "./tidy/sourceRules.ts"

// Violations planted in small trees: a check that silently checks nothing would accept them.

type Planted = ReadonlyArray<readonly [rule: string, file: string, text: string]>
const filesOf = (planted: Planted) => Object.fromEntries(planted.map(([, file, text]) => [file, `${text}\n`]))

const runNode = (root: string, ...args: ReadonlyArray<string>) =>
  spawnSync(process.execPath, args, { cwd: root, encoding: "utf8", timeout: 180_000 })

describe("boundaries: a violation of each rule is found", () => {
  const core = "packages/core/src"
  const planted: Planted = [
    ["core-media", `${core}/media/Domain.ts`, `import "../domain/index.ts"`],
    ["core-domain", `${core}/domain/Port.ts`, `import "../ports/index.ts"`],
    ["core-providers", `${core}/providers/Port.ts`, `import "../ports/index.ts"`],
    ["core-ports", `${core}/ports/Kind.ts`, `import "../kinds/index.ts"`],
    ["core-kinds", `${core}/kinds/Engine.ts`, `import type {} from "../engine/Engine.ts"`],
    ["core-engine", `${core}/engine/Worker.ts`, `import "../worker/index.ts"`],
    ["core-installation", `${core}/installation/Worker.ts`, `import "../worker/index.ts"`],
    ["core-worker", `${core}/worker/Root.ts`, `import "../index.ts"`],
    ["core-is-pure", `${core}/domain/Node.ts`, `export const load = () => import("node:fs")`],
    ["adapters-see-domain-and-ports", "packages/adapter-blobs/src/Engine.ts", `import "@kiln/core"`],
    ["probe-sees-media", "packages/media-probe/src/Engine.ts", `import "@kiln/core"`],
    ["sql-adapters-see-sql-store", "packages/adapter-postgres/src/Engine.ts", `import "@kiln/core"`],
    ["sql-store-sees-domain-and-ports", "packages/sql-store/src/Engine.ts", `import "@kiln/core"`],
    ["only-sql-adapters-see-sql-store", "packages/adapter-blobs/src/Sql.ts", `import "@kiln/sql-store"`],
    ["providers-see-domain-and-providers", "packages/provider-http/src/Store.ts", `import "@kiln/core/ports"`],
    ["rules-are-for-stores", "packages/http/src/Rules.ts", `import "@kiln/core/rules"`],
    ["ai-sdk-sees-providers-and-http", "packages/provider-ai-sdk/src/Worker.ts", `import "@kiln/core/worker"`],
    ["testing-sees-domain-and-ports", "packages/testing/src/Engine.ts", `import "@kiln/core"`],
    ["test-engine-sees-core", "packages/testing/src/TestEngine/Sqlite.ts", `import "@kiln/adapter-sqlite"`],
    ["conformance-sees-ports-and-testing", "packages/conformance/src/Engine.ts", `import "@kiln/core"`],
    ["conformance-model-is-pure", "packages/conformance/src/model/Runner.ts", `import "vitest"`],
    ["simulation-sees-core-and-testing", "packages/simulation/src/Sqlite.ts", `import "@kiln/adapter-sqlite"`],
    ["http-sees-core-and-client", "packages/http/src/Adapter.ts", `import "@kiln/adapter-sqlite"`],
    ["nothing-sees-cli", "packages/http/src/Program.ts", `import type {} from "@kiln/cli"`],
    ["client-sees-domain", "packages/client/src/api/Engine.ts", `import "@kiln/core"`],
    ["client-api-is-apart", "packages/client/src/api/Client.ts", `import "../index.ts"`],
    ["client-without-effect", "packages/client/src/Effect.ts", `import "effect"`],
    ["shipped-without-testing", "packages/http/src/Testing.ts", `import "@kiln/testing"`],
    ["shipped-without-labs", "packages/http/src/Lab.ts", `import "@kiln/postgres-lab"`],
    ["postgres-lab-is-apart", "packages/postgres-lab/src/Port.ts", `import "@kiln/core/ports"`],
    ["shipped-imports-shipped", "packages/http/src/Test.ts", `import "../test/server.ts"`],
    ["packages-by-name", "packages/http/src/Relative.ts", `import "../../core/src/index.ts"`],
    ["packages-through-doors", "packages/http/test/inside.ts", `import "../../core/src/engine/Engine.ts"`],
    ["no-deep-imports", "packages/http/src/Deep.ts", `import "@kiln/core/src/engine/Engine.ts"`],
    ["no-unresolvable", "packages/http/src/Nowhere.ts", `import "./DoesNotExist.ts"`],
    ["no-circular", "packages/http/src/Ring.ts", `import "./RingBack.ts"`],
    ["declared-dependencies", "packages/media-probe/src/Undeclared.ts", `import "kysely"`],
  ]
  const besides = {
    [`${core}/engine/Engine.ts`]: "export {}\n",
    "packages/http/src/RingBack.ts": `import "./Ring.ts"\n`,
    "packages/http/test/server.ts": "export {}\n",
  }
  const run = (root: string) => {
    const { status, stdout } = runNode(repository, join(repository, "scripts/boundaries.ts"), "--json", root)
    return { status, report: JSON.parse(stdout) as { violations: Array<unknown>; blind: Array<string> } }
  }
  let found: ReturnType<typeof run>
  beforeAll(() => {
    using tree = plantTree({ ...besides, ...filesOf(planted) })
    found = run(tree.root)
  })

  it.each(planted)("%s in %s", (rule, from) =>
    expect(found.report.violations).toContainEqual(expect.objectContaining({ rule, from })),
  )

  it("and the check fails, also if it reads nothing", () => {
    expect(found.status).toBe(1)
    using tree = plantTree({})
    expect(run(join(tree.root, "node_modules"))).toMatchObject({
      status: 1,
      report: { blind: ["0 modules were read", "0 imports were read"] },
    })
  })

  it("no rule is left out", () =>
    expect(planted.map(([rule]) => rule)).toEqual(
      expect.arrayContaining([...rules.forbidden.map(({ name }) => name), "declared-dependencies"]),
    ))
})

describe("lint and unused code", () => {
  const planted: Planted = [
    ["typescript(no-explicit-any)", "packages/core/src/domain/any.ts", "export const value: any = 1"],
    [
      "typescript(no-floating-promises)",
      "packages/http/src/floating.ts",
      "export const f = (p: Promise<void>) => {\n  p\n}",
    ],
    ["eslint(no-console)", "packages/core/src/worker/log.ts", "console.log(1)"],
    ["node(no-process-env)", "packages/core/src/worker/env.ts", `export const home = process.env["HOME"]`],
    [
      "vitest(no-focused-tests)",
      "packages/core/test/only.test.ts",
      `import { it } from "vitest"\nit.only("x", () => {})`,
    ],
  ]

  it("lint finds a violation of each kind of rule", () => {
    using tree = plantTree(filesOf(planted), [".oxlintrc.jsonc", "tsconfig.json"])
    const { status, stdout } = runNode(
      tree.root,
      join(repository, "node_modules/oxlint/bin/oxlint"),
      "--format",
      "json",
    )
    const { diagnostics } = JSON.parse(stdout) as { diagnostics: Array<{ code: string; filename: string }> }
    const found = diagnostics.map(({ code, filename }) => `${code} ${filename}`)
    expect(found).toEqual(expect.arrayContaining(planted.map(([rule, file]) => `${rule} ${file}`)))
    expect(status).toBe(1)
  })

  it("knip finds an unused file, export and dependency", () => {
    const path = "packages/core/package.json"
    const manifest = JSON.parse(readFileSync(join(repository, path), "utf8"))
    const files = {
      [path]: JSON.stringify({ ...manifest, dependencies: { kysely: "catalog:" } }),
      "packages/core/src/domain/index.ts": `import { used } from "./used.ts"\nconsole.log(used)\n`,
      "packages/core/src/domain/used.ts": "export const used = 1\nexport const unused = 2\n",
      "packages/core/src/domain/forgotten.ts": "export const forgotten = 1\n",
    }
    using tree = plantTree(files, ["knip.jsonc", "tsconfig.json"])
    const options = ["--directory", tree.root, "--reporter", "json", "--no-config-hints"]
    const kinds = ["--include", "files,exports,dependencies"]
    const { status, stdout } = runNode(
      tree.root,
      join(repository, "node_modules/knip/bin/knip.js"),
      ...options,
      ...kinds,
    )
    const { issues } = JSON.parse(stdout) as { issues: Array<Readonly<Record<string, unknown>>> }
    for (const [kind, name] of Object.entries({ files: "forgotten.ts", exports: "unused", dependencies: "kysely" }))
      expect(JSON.stringify(issues.map((issue) => issue[kind]))).toContain(name)
    expect(status).toBe(1)
  })
})

describe("tidy: each rule finds what it forbids", () => {
  const source = "packages/core/src/engine/createJob.ts"
  it.each([
    ["long files", (files) => shortFiles(files, {}), source, "x\n".repeat(401)],
    ["ambient effects", noAmbientEffects, source, "const now = Date.now()"],
    ["type holes", noTypeHoles, source, "const x = y as unknown as Job"],
    ["silent skips", noSilentSkips, "packages/core/test/a.test.ts", "it.skip('x', f)"],
    ["machine paths", noMachinePaths, "docs/guide.md", "cd /root/kiln"],
    ["registry hosts", noRegistryHosts, "pnpm-lock.yaml", "resolution: {tarball: https://host.example/x.tgz}"],
    ["inexact versions", exactVersions, "packages/core/package.json", `{ "dependencies": { "a": "^1.2.3" } }`],
    ["inexact versions of the catalog", exactVersions, "pnpm-workspace.yaml", "catalog:\n  a: latest\n"],
    ["links to nowhere", linksResolve, "docs/guide.md", "[x](nowhere.md)"],
  ] satisfies ReadonlyArray<readonly [string, typeof noTypeHoles, string, string]>)("%s", (_, rule, path, text) => {
    expect(rule([{ path, text }])).toHaveLength(1)
  })
})

describe("snippets of the documentation", () => {
  const planted: Readonly<Record<string, readonly [code: string, output?: string]>> = {
    sound: [`console.log("hello")`, "hello"],
    mistyped: [`const n: number = "one"\nconsole.log(n)`],
    throwing: [`throw new Error("broken")`],
    misprinting: [`console.log("one")`, "two"],
    noTest: [`import { it } from "vitest"\nconsole.log(typeof it)`],
  }
  const page = Object.values(planted).map(
    ([code, output]) =>
      `\`\`\`ts\n${code}\n\`\`\`\n${output === undefined ? "" : `\`\`\`text output\n${output}\n\`\`\`\n`}`,
  )
  const snippets = extractSnippets("planted.md", page.join("\n"))
  const workshop = new SnippetWorkshop(repository, snippets)
  afterAll(() => workshop[Symbol.dispose]())

  it("a block that is neither run nor compiled is refused", () =>
    expect(() => extractSnippets("a.md", "```typescript\none()\n```")).toThrow("a.md:1: write `ts`"))

  it("errors of types are found", async () => {
    const errors = await workshop.typeErrors()
    expect(errors.map(({ length }) => length)).toEqual([0, 1, 0, 0, 0])
  })

  it("snippets that fail, print something else or contain no test are found", async () => {
    const ran = await workshop.runTogether([0, 2, 3, 4], 60_000)
    const problems = [0, 2, 3, 4].map((at) => problemWith(snippets[at]!, ran.get(at)!))
    expect(problems).toEqual([
      undefined,
      expect.stringContaining("Error: broken"),
      "promised\ntwo\nand printed\none",
      expect.stringContaining("exit code 1"),
    ])
  })
})

describe(".ci/run", () => {
  const tests = (...states: ReadonlyArray<string>) =>
    JSON.stringify({
      testResults: [{ name: "a.ts", status: "passed", assertionResults: states.map((status) => ({ status })) }],
    })
  const both = { test: tests("passed"), "test:system": tests("passed") }
  it.each<[what: string, reports: Reports, results: string, failed: number]>([
    ["nothing fails", both, "test 0\ntest:system 0\ntypes 0\n", 0],
    ["a tier without a report", { test: both.test }, "test 0\ntest:system 0\ntypes 0\n", 1],
    ["a tier without tests", { ...both, test: tests() }, "test 0\ntest:system 0\ntypes 0\n", 1],
    ["a crash after tests that passed", both, "test 0\ntest:system 137\ntypes 0\n", 1],
    ["a tier that was not run", both, "test 0\ntypes 0\n", 1],
    ["no check", both, "test 0\ntest:system 0\n", 1],
  ])("counts: %s", (_, reports, results, failed) =>
    expect(summaryLine(summarize(reports, parseResults(results)))).toContain(`, ${failed} failed`),
  )

  it("runs every tier and check", () => {
    const script = readFileSync(join(repository, ".ci/run"), "utf8")
    const listed = (name: string) => new RegExp(`^${name}=\\((.*)\\)$`, "m").exec(script)?.[1]?.split(" ")
    expect(listed("checks")).toEqual(staticChecks)
    expect(listed("tests")).toEqual(testCommands)
    const { scripts } = JSON.parse(readFileSync(join(repository, "package.json"), "utf8"))
    expect(Object.keys(scripts)).toEqual(expect.arrayContaining([...testCommands, ...staticChecks]))
  })

  it("continues after failures and counts them", () => {
    const scripts = Object.fromEntries(staticChecks.map((name) => [name, `exit ${name === "lint" ? 1 : 0}`]))
    const npx = `#!/usr/bin/env bash\nexec node_modules/.bin/node node_modules/vitest/vitest.mjs run $([ $3 = test ] || echo --mode system)\n`
    const files = {
      "bin/npx": npx,
      "package.json": JSON.stringify({ type: "module", scripts }),
      "packages/postgres-lab/src/globalSetup.ts": "export default () => undefined\n",
      "tests/a.test.ts": `import { it } from "vitest"\nit("a", () => {})\n`,
      "tests/b.system.ts": `import { it } from "vitest"\nit("b", () => { throw new Error("b") })\n`,
    }
    const copied = ["check", "ciSummary", "staticChecks"].map((name) => `scripts/${name}.ts`)
    using tree = plantTree(files, [".ci/run", "vitest.config.ts", ...copied])
    chmodSync(join(tree.root, "bin/npx"), 0o755)
    mkdirSync(join(tree.root, "node_modules/.bin"))
    symlinkSync(process.execPath, join(tree.root, "node_modules/.bin/node"))
    const { CI: _, KILN_TEST_REPORT: __, ...env } = process.env
    const { status, stdout } = spawnSync("bash", [join(tree.root, ".ci/run")], {
      cwd: tmpdir(),
      encoding: "utf8",
      env: { ...env, PATH: [join(tree.root, "bin"), env["PATH"]].join(delimiter) },
    })
    expect(stdout.trimEnd().split("\n").at(-1)).toBe(`${staticChecks.length} passed, 2 failed`)
    expect(status).toBe(1)
  })
})
