/** A single finding of a check. */
export interface Finding {
  /** Description for people. */
  readonly message: string
  /** Fixes this finding, if it differs from the check's remedy: a command, or a setting and its value. */
  readonly remedy?: string | undefined
  /** Details for programs: `{ file_id, blob_key, problem }`. */
  readonly details?: Readonly<Record<string, string>>
}

export type CheckStatus = "ok" | "warning" | "problem" | "skipped"

/** The result of a check. Only a `problem` makes the doctor fail, unless it is strict. */
export interface Check {
  readonly name: string
  readonly status: CheckStatus
  /** Summary in one line. */
  readonly summary: string
  /** Fixes all findings without a remedy of their own. */
  readonly remedy?: string | undefined
  readonly findings: ReadonlyArray<Finding>
}

/** The parts of a result that calls for action. */
export interface Advice {
  readonly summary: string
  /** Omitted only if every finding has one. */
  readonly remedy?: string | undefined
  readonly findings?: ReadonlyArray<Finding>
}

export const ok = (name: string, summary: string): Check => ({ name, status: "ok", summary, findings: [] })
export const skipped = (name: string, summary: string): Check => ({ name, status: "skipped", summary, findings: [] })
export const warning = (name: string, { findings = [], ...advice }: Advice): Check => ({
  name,
  status: "warning",
  ...advice,
  findings,
})
export const problem = (name: string, { findings = [], ...advice }: Advice): Check => ({
  name,
  status: "problem",
  ...advice,
  findings,
})

/** A finding that is serious by itself, or not. */
export interface GradedFinding extends Finding {
  readonly isProblem: boolean
}

/** Reports findings of different severity: the worst one decides. Each finding has a remedy. */
export const graded = (
  name: string,
  findings: ReadonlyArray<GradedFinding & { readonly remedy: string }>,
  say: { readonly well: string; readonly wrong: string },
): Check => {
  if (findings.length === 0) return ok(name, say.well)
  const advice = { summary: say.wrong, findings: findings.map(({ isProblem: _, ...finding }) => finding) }
  return findings.some(({ isProblem }) => isProblem) ? problem(name, advice) : warning(name, advice)
}

/** `1 file`, `2 files`. */
export const counted = (count: number, noun: string, plural = `${noun}s`): string =>
  `${count} ${count === 1 ? noun : plural}`

/** `45 s`, `12 min`, `5 h`, `3 d`. */
export const ageText = (ms: number): string => {
  const seconds = Math.max(0, Math.round(ms / 1_000))
  if (seconds < 120) return `${seconds} s`
  if (seconds < 7_200) return `${Math.round(seconds / 60)} min`
  return seconds < 172_800 ? `${Math.round(seconds / 3_600)} h` : `${Math.round(seconds / 86_400)} d`
}

/** `340 MB`, `12.5 GB`; powers of 1,024. */
export const bytesText = (bytes: number): string => {
  const megabytes = bytes / 1_048_576
  return megabytes < 1_024 ? `${Math.round(megabytes)} MB` : `${(megabytes / 1_024).toFixed(1)} GB`
}
