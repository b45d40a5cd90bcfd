// The last line of a CI run: `node scripts/ciSummary.ts REPORT RESULTS`.
//
// REPORT is what vitest's JSON reporter wrote. RESULTS has a line `name exit-code` for the test command (named `test`) and
// for each static check. Every test counts as one, every static check counts as one, and what hides its numbers (a test
// file that did not load, a run that crashed, a run of nothing) counts as one failure.
import { existsSync, readFileSync } from "node:fs"
import { basename } from "node:path"

export interface Result {
  readonly name: string
  readonly exitCode: number
}

export interface Summary {
  readonly passed: number
  readonly failed: number
  readonly skipped: number
  /** Why something counts as failed that no test and no check reports by itself. */
  readonly reasons: ReadonlyArray<string>
}

interface TestFile {
  readonly name: string
  readonly status: string
  readonly assertionResults: ReadonlyArray<{
    readonly status: string
    readonly fullName?: string
    readonly failureMessages?: ReadonlyArray<string> | null
  }>
}

interface Report {
  readonly testResults: ReadonlyArray<TestFile>
}

/** Sums up checks and tests. `report` is undefined if the file does not exist. */
export const summarize = (report: string | undefined, results: ReadonlyArray<Result>): Summary => {
  const tests = results.find(({ name }) => name === "test")
  const checks = results.filter(({ name }) => name !== "test")
  const counted = countTests(report)
  const reasons = [
    ...counted.reasons,
    ...(tests === undefined ? ["the tests were not run"] : []),
    ...(checks.length === 0 ? ["no static check was run"] : []),
  ]
  const unexplained = tests !== undefined && tests.exitCode !== 0 && counted.failed + reasons.length === 0
  if (unexplained) reasons.push(`the tests ended with exit code ${tests.exitCode}, though none failed`)
  const green = checks.filter(({ exitCode }) => exitCode === 0).length
  return {
    passed: counted.passed + green,
    failed: counted.failed + checks.length - green + reasons.length,
    skipped: counted.skipped,
    reasons,
  }
}

const countTests = (text: string | undefined): Summary => {
  const report = parse(text)
  if (report === undefined) return { passed: 0, failed: 0, skipped: 0, reasons: ["the tests left no report"] }
  const statuses = report.testResults.flatMap(({ assertionResults }) => assertionResults.map(({ status }) => status))
  const passed = statuses.filter((status) => status === "passed").length
  const failed = statuses.filter((status) => status === "failed").length
  const broken = report.testResults.filter(
    ({ status, assertionResults }) => status !== "passed" && assertionResults.every((test) => test.status !== "failed"),
  )
  const reasons = broken.map(({ name }) => `${name} failed outside of a test`)
  if (passed + failed === 0 && reasons.length === 0) reasons.push("the tests ran no test")
  return { passed, failed, skipped: statuses.length - passed - failed, reasons }
}

/** Where a run's failure is looked for first: each failed test, with the first lines of what it said. */
export const failures = (text: string | undefined): Array<string> =>
  (parse(text)?.testResults ?? []).flatMap(({ name, assertionResults }) =>
    assertionResults
      .filter(({ status }) => status === "failed")
      .map(({ fullName = "a test", failureMessages }) => {
        const said = (failureMessages ?? []).join("\n").split("\n").slice(0, linesSaid)
        return [`${basename(name)}: ${fullName}`, ...said.map((line) => `  ${line.slice(0, columnsSaid)}`)].join("\n")
      }),
  )
const linesSaid = 12
const columnsSaid = 300

const parse = (text: string | undefined): Report | undefined => {
  try {
    const report: Report | undefined = text === undefined ? undefined : JSON.parse(text)
    return Array.isArray(report?.testResults) ? report : undefined
  } catch {
    return undefined
  }
}

/** The plain line: `12 passed, 0 failed`, and the skipped ones where there are any. */
export const summaryLine = ({ passed, failed, skipped }: Summary): string =>
  `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`

/** Reads `name exit-code` lines. */
export const parseResults = (text: string): Array<Result> =>
  text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => {
      const [name = "", exitCode = ""] = line.split(" ")
      return { name, exitCode: /^\d+$/.test(exitCode) ? Number(exitCode) : 1 }
    })

if (import.meta.main) {
  const [reportPath = "", resultsPath = ""] = process.argv.slice(2)
  const report = existsSync(reportPath) ? readFileSync(reportPath, "utf8") : undefined
  const results = parseResults(readFileSync(resultsPath, "utf8"))
  const summary = summarize(report, results)
  console.log("")
  for (const { name, exitCode } of results) console.log(`${exitCode === 0 ? "ok  " : "FAIL"} ${name}`)
  for (const failure of failures(report)) console.log(`FAIL ${failure}`)
  for (const reason of summary.reasons) console.log(`FAIL ${reason}`)
  console.log(summaryLine(summary))
  process.exitCode = summary.failed === 0 ? 0 : 1
}
