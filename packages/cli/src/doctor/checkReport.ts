import type { Check, CheckStatus } from "./Check.ts"
import { checkNames } from "./Examination.ts"

const words: Readonly<Record<CheckStatus, string>> = {
  ok: "ok",
  warning: "note",
  problem: "WRONG",
  skipped: "-",
}

const indent = " ".repeat(9)

const fixOf = (remedy: string | undefined): ReadonlyArray<string> =>
  remedy === undefined ? [] : [`${indent}fix: ${remedy}`]

const width = Math.max(...checkNames.map(({ length }) => length))

/** Maximum number of findings of a check that people see; a damaged disk has thousands. */
const mostShown = 20

/** Shows a check to people, in a line with its first findings below it, and what to do. */
export const checkLine = ({ findings, name, remedy, status, summary }: Check): string =>
  [
    `${words[status].padEnd(5)}  ${name.padEnd(width)}  ${summary}`,
    ...findings.slice(0, mostShown).flatMap((finding) => [`${indent}${finding.message}`, ...fixOf(finding.remedy)]),
    ...(findings.length > mostShown
      ? [`${indent}… the first ${mostShown} of the ${findings.length} that kiln doctor --only ${name} --json lists`]
      : []),
    ...fixOf(remedy),
  ].join("\n")

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
