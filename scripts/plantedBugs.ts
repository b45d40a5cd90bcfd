// Writes docs/planted-bugs.md from the data of the tests that plant bugs, or with `--check` fails if it differs.
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { difference } from "./difference.ts"
import { coreBugs, type CoreBug } from "./plantedBugs/coreBugs.ts"
import { type Planted, suites as realSuites, type Suite, type Suites } from "./plantedBugs/suites.ts"

const row = (...cells: ReadonlyArray<string>): string =>
  `| ${cells.map((cell) => cell.replaceAll("|", String.raw`\|`)).join(" | ")} |`
const table = (head: ReadonlyArray<string>, rows: ReadonlyArray<ReadonlyArray<string>>): string =>
  [row(...head), `|${"---|".repeat(head.length)}`, ...rows.map((cells) => row(...cells))].join("\n")

const plantedIn = ({ bugs, title }: Suite, text: string): Planted => {
  const found = bugs.find(({ bug }) => bug === text)
  if (found === undefined) throw new Error(`${title} plants no such bug: ${text}`)
  return found
}

/** A row for each form of the bug; its name stands in the first. */
const coreRows = ({ bug, planted }: CoreBug, suites: Suites): ReadonlyArray<ReadonlyArray<string>> =>
  Object.entries(planted)
    .flatMap(([name, forms]) => forms.map((form) => [suites[name as keyof Suites], form] as const))
    .map(([suite, form], index) => [
      index === 0 ? `**${bug}**` : "",
      suite.title,
      form,
      plantedIn(suite, form).caughtBy,
    ])

const section = ({ about, bugs, columns, test, title }: Suite): string => `## ${title}

${about} Asserted by [${test}](../${test}).

${table(
  ["bug", ...columns],
  bugs.map(({ bug, cells }) => [bug, ...cells]),
)}
`

/** The whole page. */
export const describePlantedBugs = (suites: Suites): string => {
  const all = Object.values(suites)
  const count = all.reduce((sum, { bugs }) => sum + bugs.length, 0)
  return `<!-- Written by scripts/plantedBugs.ts from the data of the tests: \`pnpm planted-bugs\`. -->

# Planted bugs

A suite proves something only if it can fail. Tests plant these ${count} bugs, by changing a module as it is loaded or by
wrapping a port; shipped code has no switch for them. Each test asserts that its bug is caught, and which check catches it.
[invariants.md](invariants.md) lists what the suites verify.

## At the core

One bug for each central promise of the engine, in every form in which a suite plants it.

${table(
  ["bug", "suite", "planted as", "caught by"],
  coreBugs.flatMap((bug) => coreRows(bug, suites)),
)}

${all.map(section).join("\n")}`
}

if (import.meta.main) {
  const page = join(import.meta.dirname, "../docs/planted-bugs.md")
  const text = describePlantedBugs(realSuites)
  if (process.argv.includes("--check")) {
    const stale = difference(text, page)
    console.log(
      stale === undefined
        ? "docs/planted-bugs.md is up to date"
        : `docs/planted-bugs.md ${stale}: run \`npx -y pnpm@12 planted-bugs\``,
    )
    if (stale !== undefined) process.exitCode = 1
  } else {
    writeFileSync(page, text)
    console.log("wrote docs/planted-bugs.md")
  }
}
