// Prints the last line of a CI run: `node scripts/ciSummary.ts DIRECTORY`.
//
// DIRECTORY/results has a line `name exit-code` for each test command and each static check; DIRECTORY/NAME.json is the report
// that vitest's JSON reporter wrote for that test command. Each test counts as one, and so does each static check. A test file
// that did not load, a run that crashed and a run without tests count as one failure each.
import { existsSync, readFileSync } from "node:fs"
import { basename, join } from "node:path"

export interface Result {
  readonly name: string
  readonly exitCode: number
}

export interface Summary {
  readonly passed: number
  readonly failed: number
  readonly skipped: number
  /** The reason of a failure that no test and no check reports. */
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

/** The test commands of a CI run. */
export const testCommands = ["test", "test:system"] as const

export type Reports = Readonly<Partial<Record<(typeof testCommands)[number], string>>>

/** Adds up tests and checks. A command whose report is missing counts as one failure. */
export const summarize = (reports: Reports, results: ReadonlyArray<Result>): Summary => {
  const checks = results.filter(({ name }) => !testCommands.some((command) => command === name))
  const green = checks.filter(({ exitCode }) => exitCode === 0).length
  const counted = testCommands.map((name) =>
    countRun(
      name,
      reports[name],
      results.find((result) => result.name === name),
    ),
  )
  const sum = (figure: "passed" | "failed" | "skipped") => counted.reduce((total, run) => total + run[figure], 0)
  const nothingChecked = checks.length === 0 ? ["no static check was run"] : []
  return {
    passed: sum("passed") + green,
    failed: sum("failed") + checks.length - green + nothingChecked.length,
    skipped: sum("skipped"),
    reasons: [...counted.flatMap(({ reasons }) => reasons), ...nothingChecked],
  }
}

/** Counts one test command. Failures outside of its tests count as failed too. */
const countRun = (name: string, report: string | undefined, result: Result | undefined): Summary => {
  const counted = countTests(report)
  const reasons = [...counted.reasons, ...(result === undefined ? ["the tests were not run"] : [])]
  const unexplained = result !== undefined && result.exitCode !== 0 && counted.failed + reasons.length === 0
  if (unexplained) reasons.push(`the tests ended with exit code ${result.exitCode}, though none failed`)
  return {
    ...counted,
    failed: counted.failed + reasons.length,
    reasons: reasons.map((reason) => `${name}: ${reason}`),
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

/** Lists the failed tests, each with the first lines of its message. */
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

/** Returns the summary line: `12 passed, 0 failed`, with skipped tests if there are any. */
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
  const [directory = ""] = process.argv.slice(2)
  const reportOf = (name: string): string | undefined => {
    const path = join(directory, `${name}.json`)
    return existsSync(path) ? readFileSync(path, "utf8") : undefined
  }
  const reports = testCommands.map((name) => [name, reportOf(name)] as const)
  const results = parseResults(readFileSync(join(directory, "results"), "utf8"))
  const summary = summarize(Object.fromEntries(reports), results)
  console.log("")
  for (const { name, exitCode } of results) console.log(`${exitCode === 0 ? "ok  " : "FAIL"} ${name}`)
  for (const failure of reports.flatMap(([, report]) => failures(report))) console.log(`FAIL ${failure}`)
  for (const reason of summary.reasons) console.log(`FAIL ${reason}`)
  console.log(summaryLine(summary))
  process.exitCode = summary.failed === 0 ? 0 : 1
}
