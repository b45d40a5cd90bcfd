import { spawnSync } from "node:child_process"
import { chmodSync, mkdirSync, readFileSync, symlinkSync } from "node:fs"
import { tmpdir } from "node:os"
import { delimiter, join } from "node:path"
import { describe, expect, it } from "vitest"
import { parseResults, summarize, summaryLine } from "../scripts/ciSummary.ts"
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

const line = (text: string | undefined, results: string): string => summaryLine(summarize(text, parseResults(results)))

describe("the summary of a CI run", () => {
  const green = report(["passed", "passed", "passed"], ["passed", "passed"])

  it("adds tests and checks", () => {
    expect(line(green, "test 0\ntypes 0\nlint 0\n")).toBe("5 passed, 0 failed")
    expect(line(report(["passed", "passed", "skipped", "todo"]), "test 0\ntypes 0\n")).toBe(
      "2 passed, 0 failed, 2 skipped",
    )
  })

  it("counts each failed check and each failed test once", () => {
    expect(line(green, "test 0\ntypes 0\nlint 1\nunused 2\n")).toBe("4 passed, 2 failed")
    expect(line(report(["failed", "passed", "failed", "failed"]), "test 1\ntypes 0\n")).toBe("2 passed, 2 failed")
  })

  it.each([
    ["no report", undefined, "test 1\ntypes 0\n", "1 passed, 1 failed"],
    ["no report, though the command says it went well", undefined, "test 0\ntypes 0\n", "1 passed, 1 failed"],
    ["half a report", `{"testResults":[`, "test 1\ntypes 0\n", "1 passed, 1 failed"],
    ["another report", `{}`, "test 0\ntypes 0\n", "1 passed, 1 failed"],
    ["no tests", report(), "test 1\ntypes 0\n", "1 passed, 1 failed"],
    ["skipped tests alone", report(["passed", "skipped"]), "test 0\ntypes 0\n", "1 passed, 1 failed, 1 skipped"],
    ["a file that did not load", report(["passed", "passed"], ["failed"]), "test 1\ntypes 0\n", "2 passed, 1 failed"],
    ["a crash after green tests", green, "test 137\ntypes 0\n", "4 passed, 1 failed"],
    ["no test command", green, "types 0\n", "4 passed, 1 failed"],
    ["no check", green, "test 0\n", "3 passed, 1 failed"],
    ["a result that is not a number", green, "test 0\ntypes \n", "3 passed, 1 failed"],
  ])("takes for a failure: %s", (_, text, results, expected) => expect(line(text, results)).toBe(expected))
})

describe("the list of checks", () => {
  it("is the same in .ci/run, and each is a script", () => {
    const [, listed] = /^checks=\((.*)\)$/m.exec(readFileSync(join(repository, ".ci/run"), "utf8")) ?? []
    expect(listed?.split(" ")).toEqual(staticChecks)
    const { scripts } = JSON.parse(readFileSync(join(repository, "package.json"), "utf8"))
    expect(Object.keys(scripts)).toEqual(expect.arrayContaining(["test", ...staticChecks]))
  })
})

/** Stands in for `npx -y pnpm@12 SCRIPT`: real tests, and checks that end as told. */
const npx = (failing: string, install = true): string => `#!/usr/bin/env bash
[ "$1 $2" = "-y pnpm@12" ] || exit 99
[ "$CI" = true ] || exit 98
read -r _ && exit 97
${install ? "" : "exit 1"}
case "$3" in
  test) exec node_modules/.bin/node node_modules/vitest/vitest.mjs run ;;
  ${failing}) exit 1 ;;
esac
`

const runCi = (tests: Readonly<Record<string, string>>, command: string, install = true) => {
  // The planted tests need no database.
  const setup = { "packages/postgres-lab/src/globalSetup.ts": "export default () => undefined\n" }
  const copied = [".ci/run", "scripts/ciSummary.ts", "vitest.config.ts"]
  using tree = plantTree({ ...tests, ...setup, "bin/npx": command }, copied)
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

  it("passes when everything does", () => {
    expect(runCi({ "tests/a.test.ts": passing }, npx("nothing")).outcome).toEqual({
      status: 0,
      last: `${2 + checks} passed, 0 failed`,
      plain: 1,
    })
  })

  it("goes on after failures and counts them", () => {
    const tests = {
      "tests/a.test.ts": passing,
      "tests/b.test.ts": failing,
      "tests/c.test.ts": "throw new Error('load')\n",
    }
    const { outcome, tail } = runCi(tests, npx("lint|unused"))
    expect(outcome).toEqual({ status: 1, last: `${3 + checks - 2} passed, 4 failed, 1 skipped`, plain: 1 })
    // Near the end, since of a long run often only the end is kept.
    expect(tail).toMatch(/^FAIL b\.test\.ts: d\n {2}.*d$/m)
  })

  it("fails when no test is found", () => {
    expect(runCi({}, npx("nothing")).outcome).toEqual({ status: 1, last: `${checks} passed, 1 failed`, plain: 1 })
  })

  it("fails when nothing can be installed", () => {
    expect(runCi({}, npx("nothing", false), false).outcome).toEqual({
      status: 1,
      last: `0 passed, ${checks + 1} failed`,
      plain: 1,
    })
  })
})
