import type { Check } from "./Check.ts"

const words: Readonly<Record<Check["status"], string>> = {
  ok: "ok",
  warning: "note",
  problem: "WRONG",
  skipped: "-",
}

const lineOf = ({ findings, name, status, summary }: Check, width: number): string =>
  [
    `${words[status].padEnd(5)}  ${name.padEnd(width)}  ${summary}`,
    ...findings.map(({ message }) => `         ${message}`),
  ].join("\n")

/** Shows checks to people, each with its findings below it. */
export const checkLines = (checks: ReadonlyArray<Check>): string => {
  const width = Math.max(...checks.map(({ name }) => name.length))
  return checks.map((check) => lineOf(check, width)).join("\n")
}

/** A check for programs. */
export const checkDocument = ({ findings, name, status, summary }: Check) => ({
  name,
  status,
  summary,
  findings: findings.map(({ details, message }) => ({ message, ...details })),
})
