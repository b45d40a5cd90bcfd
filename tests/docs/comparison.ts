/** The columns of the comparison, kiln first. */
export const engines = ["kiln", "pg-boss", "graphile-worker", "BullMQ", "River", "Oban", "Inngest"]

export interface ComparisonRow {
  readonly number: number
  /** By engine. */
  readonly answers: Readonly<Record<string, string>>
}

/** Returns the rows of all tables of the page, in order. */
export const comparisonRows = (page: string): Array<ComparisonRow> =>
  [...page.matchAll(/^\| (\d+) \|(.*)\|$/gm)].map(([, number, cells = ""]) => {
    const [, ...answers] = cells.split(" | ").map((cell) => cell.trim())
    return {
      number: Number(number),
      answers: Object.fromEntries(answers.map((answer, index) => [engines[index] ?? `column ${index}`, answer])),
    }
  })

/** A "no" with fewer words gives no reason. */
const shortestReason = 4

/**
 * Returns what an answer of kiln lacks: "yes" and "partly" need a link into this repository, "no" needs a reason. Whether a link
 * leads somewhere is the check of all Markdown files.
 */
export const problemWithAnswer = (number: number, answer: string): Array<string> => {
  const [, word, rest = ""] = /^(yes|partly|no)\b:?(.*)$/.exec(answer) ?? []
  if (word === undefined) return [`row ${number}: "${answer}" begins with neither yes, partly nor no`]
  if (word === "no")
    return rest.trim().split(/\s+/).length < shortestReason ? [`row ${number}: no without a reason`] : []
  return /\]\((?![a-z]+:)[^)]+\)/.test(rest) ? [] : [`row ${number}: ${word} without a test or a guide`]
}
