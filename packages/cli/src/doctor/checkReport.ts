import type { Check, CheckStatus } from "./Check.ts"

const words: Readonly<Record<CheckStatus, string>> = {
  ok: "ok",
  warning: "note",
  problem: "WRONG",
  skipped: "-",
}

const indent = " ".repeat(9)

const fixOf = (remedy: string | undefined): ReadonlyArray<string> =>
  remedy === undefined ? [] : [`${indent}fix: ${remedy}`]

const lineOf = ({ findings, name, remedy, status, summary }: Check, width: number): string =>
  [
    `${words[status].padEnd(5)}  ${name.padEnd(width)}  ${summary}`,
    ...findings.flatMap((finding) => [`${indent}${finding.message}`, ...fixOf(finding.remedy)]),
    ...fixOf(remedy),
  ].join("\n")

/** Shows checks to people, each in a line with its findings below it, and what to do. */
export const checkLines = (checks: ReadonlyArray<Check>): string => {
  const width = Math.max(...checks.map(({ name }) => name.length))
  return checks.map((check) => lineOf(check, width)).join("\n")
}

/** A check for programs. */
export const checkDocument = ({ findings, name, remedy, status, summary }: Check) => ({
  name,
  status,
  summary,
  remedy: remedy ?? null,
  findings: findings.map(({ details, message, remedy: own }) => ({
    message,
    remedy: own ?? remedy ?? null,
    ...details,
  })),
})
