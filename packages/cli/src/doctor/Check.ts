/** What one look at an installation found. */
export interface Finding {
  /** In words, for people. */
  readonly message: string
  /** What it is about, for programs: `{ file_id, blob_key, problem }`. */
  readonly details?: Readonly<Record<string, string>>
}

/** The outcome of one look. Only a `problem` makes the doctor say that something is wrong. */
export interface Check {
  readonly name: string
  readonly status: "ok" | "warning" | "problem" | "skipped"
  /** One line. */
  readonly summary: string
  readonly findings: ReadonlyArray<Finding>
}

export const ok = (name: string, summary: string): Check => ({ name, status: "ok", summary, findings: [] })
export const skipped = (name: string, summary: string): Check => ({ name, status: "skipped", summary, findings: [] })
export const warning = (name: string, summary: string, findings: ReadonlyArray<Finding> = []): Check => ({
  name,
  status: "warning",
  summary,
  findings,
})
export const problem = (name: string, summary: string, findings: ReadonlyArray<Finding> = []): Check => ({
  name,
  status: "problem",
  summary,
  findings,
})

/** A problem where something was found, and else well. */
export const wellUnless = (
  name: string,
  findings: ReadonlyArray<Finding>,
  say: { readonly well: string; readonly problem: string },
): Check => (findings.length === 0 ? ok(name, say.well) : problem(name, say.problem, findings))

/** `1 file`, `2 files`. */
export const counted = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? "" : "s"}`
