import { spawnSync } from "node:child_process"
import { chmodSync, mkdirSync, readFileSync, symlinkSync } from "node:fs"
import { tmpdir } from "node:os"
import { delimiter, join } from "node:path"
import { describe, expect, it } from "vitest"
import { parseResults, type Reports, summarize, summaryLine, testCommands } from "../scripts/ciSummary.ts"
import { staticChecks } from "../scripts/staticChecks.ts"
import { plantTree, repository } from "./support/plantTree.ts"

const report = (...files: ReadonlyArray<readonly [status: string, ...tests: ReadonlyArray<string>]>): string =>
  JSON.stringify({
    testResults: files.map(([status, ...tests], index) => ({
      name: `file${index}.test.ts`,
      status,
      assertionResults: tests.map((test) => ({ status: test })),
    })),
  })

const line = (reports: Reports, results: string): string => summaryLine(summarize(reports, parseResults(results)))

describe("the summary of a CI run", () => {
  const both = {
    test: report(["passed", "passed", "passed", "passed"]),
    "test:system": report(["passed", "passed", "passed"]),
  }
  const ended = "test 0\ntest:system 0\ntypes 0\n"

  it("adds both tiers and the checks, and counts each failed check and each failed test once", () => {
    expect(line(both, `${ended}lint 0\n`)).toBe("7 passed, 0 failed")
    expect(line(both, `${ended}lint 1\nunused 2\n`)).toBe("6 passed, 2 failed")
    const failing = report(["failed", "passed", "failed", "skipped", "todo"])
    expect(line({ ...both, "test:system": failing }, "test 0\ntest:system 1\ntypes 0\n")).toBe(
      "5 passed, 1 failed, 2 skipped",
    )
  })

  it.each<[what: string, reports: Reports, results: string, expected: string]>([
    ["no report, although the command succeeded", { test: both.test }, ended, "4 passed, 1 failed"],
    ["half a report", { ...both, "test:system": `{"testResults":[` }, ended, "4 passed, 1 failed"],
    ["no tests", { ...both, "test:system": report() }, ended, "4 passed, 1 failed"],
    [
      "a file that did not load",
      { ...both, test: report(["passed", "passed"], ["failed"]) },
      ended,
      "4 passed, 1 failed",
    ],
    ["a crash after green tests", both, "test 0\ntest:system 137\ntypes 0\n", "6 passed, 1 failed"],
    ["a tier that was not run", both, "test 0\ntypes 0\n", "6 passed, 1 failed"],
    ["no check", both, "test 0\ntest:system 0\n", "5 passed, 1 failed"],
    ["a result that is not a number", both, `${ended}lint \n`, "6 passed, 1 failed"],
  ])("counts as a failure: %s", (_, reports, results, expected) => expect(line(reports, results)).toBe(expected))
})

it("the list of commands in .ci/run is that of the scripts, and each is in package.json", () => {
  const listed = (name: string) =>
    new RegExp(`^${name}=\\((.*)\\)$`, "m").exec(readFileSync(join(repository, ".ci/run"), "utf8"))?.[1]?.split(" ")
  expect(listed("checks")).toEqual(staticChecks)
  expect(listed("tests")).toEqual(testCommands)
  const { scripts } = JSON.parse(readFileSync(join(repository, "package.json"), "utf8"))
  expect(Object.keys(scripts)).toEqual(expect.arrayContaining([...testCommands, ...staticChecks]))
})

/** Stands in for `npx -y pnpm@12 SCRIPT`, with which the tests are run. */
const npx = (install = true): string => `#!/usr/bin/env bash
[ "$1 $2" = "-y pnpm@12" ] || exit 99
[ "$CI" = true ] || exit 98
read -r _ && exit 97
${install ? "" : "exit 1"}
case "$3" in
  test) exec node_modules/.bin/node node_modules/vitest/vitest.mjs run ;;
  test:system) exec node_modules/.bin/node node_modules/vitest/vitest.mjs run --mode system ;;
  *) exit 96 ;;
esac
`

/** A manifest whose checks pass, except for these. */
const manifestWith = (failing: ReadonlyArray<string>): string => {
  const scripts = staticChecks.map((name) => [name, `[ "$CI" = true ] && exit ${failing.includes(name) ? 1 : 0}`])
  return JSON.stringify({ type: "module", scripts: Object.fromEntries(scripts) })
}

const runCi = (tests: Readonly<Record<string, string>>, failing: ReadonlyArray<string> = [], install = true) => {
  // The planted tests need no database.
  const setup = { "packages/postgres-lab/src/globalSetup.ts": "export default () => undefined\n" }
  const copied = [".ci/run", "scripts/check.ts", "scripts/ciSummary.ts", "scripts/staticChecks.ts", "vitest.config.ts"]
  const commands = { "bin/npx": npx(install), "package.json": manifestWith(failing) }
  using tree = plantTree({ ...tests, ...setup, ...commands }, copied)
  chmodSync(join(tree.root, "bin/npx"), 0o755)
  mkdirSync(join(tree.root, "node_modules/.bin"))
  if (install) symlinkSync(process.execPath, join(tree.root, "node_modules/.bin/node"))
  const { CI: _, KILN_TEST_REPORT: __, ...env } = process.env
  const { status, stdout } = spawnSync("bash", [join(tree.root, ".ci/run")], {
    cwd: tmpdir(),
    encoding: "utf8",
    env: { ...env, PATH: [join(tree.root, "bin"), env["PATH"]].join(delimiter) },
    timeout: 100_000,
  })
  const lines = stdout.trimEnd().split("\n")
  const plain = lines.filter((text) => /^\d+ passed, \d+ failed/.test(text)).length
  return { outcome: { status, last: lines.at(-1), plain }, tail: lines.slice(-40).join("\n") }
}

describe(".ci/run", () => {
  const checks = staticChecks.length
  const passing = `import { it } from "vitest"\nit("a", () => {})\nit("b", () => {})\n`
  const failing = `import { it } from "vitest"\nit("c", () => {})\nit("d", () => { throw new Error("d") })\nit.todo("e")\n`

  it("continues after failures and counts them", () => {
    const tests = {
      "tests/a.test.ts": passing,
      "tests/b.system.ts": failing,
      "tests/c.system.ts": "throw new Error('load')\n",
    }
    const { outcome, tail } = runCi(tests, ["lint", "unused"])
    expect(outcome).toEqual({ status: 1, last: `${3 + checks - 2} passed, 4 failed, 1 skipped`, plain: 1 })
    // Near the end, since of a long run often only the end is kept.
    expect(tail).toMatch(/^FAIL b\.system\.ts: d\n {2}.*d$/m)
  })

  it("fails when nothing can be installed", () => {
    expect(runCi({}, [], false).outcome).toEqual({
      status: 1,
      last: `0 passed, ${checks + 2} failed`,
      plain: 1,
    })
  })
})
