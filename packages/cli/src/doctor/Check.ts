/** A single finding of a check. */
export interface Finding {
  /** Description for people. */
  readonly message: string
  /** Details for programs: `{ file_id, blob_key, problem }`. */
  readonly details?: Readonly<Record<string, string>>
}

/** The result of a check. Only a `problem` makes the doctor fail. */
export interface Check {
  readonly name: string
  readonly status: "ok" | "warning" | "problem" | "skipped"
  /** Summary in one line. */
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

/** Returns a problem if there are findings, otherwise success. */
export const wellUnless = (
  name: string,
  findings: ReadonlyArray<Finding>,
  say: { readonly well: string; readonly problem: string },
): Check => (findings.length === 0 ? ok(name, say.well) : problem(name, say.problem, findings))

/** `1 file`, `2 files`. */
export const counted = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? "" : "s"}`
