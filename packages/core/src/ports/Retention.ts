/** The minimum age of a finished job, in milliseconds from its end, for a sweep to change it. `Infinity` keeps the job. */
export interface RetentionAges {
  /** Applies to every kind that `byKind` leaves out, including kinds that this process does not know. */
  readonly others: number
  readonly byKind: Readonly<Record<string, number>>
}

/** The same age for all kinds, or an age for each. */
export type RetentionAge = number | RetentionAges

/** Returns the age that applies to jobs of a kind. */
export const retentionAgeOf = (age: RetentionAge, kind: string): number => {
  if (typeof age === "number") return age
  return (Object.hasOwn(age.byKind, kind) ? age.byKind[kind] : undefined) ?? age.others
}

/** Retention of the data and records of finished jobs, and of the records of unused uploads. */
export interface RetentionPeriods {
  readonly data: RetentionAges
  readonly jobs: RetentionAges
  /** Milliseconds. */
  readonly uploads: number
}

/** The name under which processes publish how long they keep records of uploads that no job used. No kind has an empty name. */
export const ruleOfUploads = ""

/** Retention of the data and records of finished jobs of a kind, in milliseconds; `null` keeps them indefinitely. */
export interface RetentionRule {
  readonly kind: string
  readonly dataMs: number | null
  readonly jobsMs: number | null
}

/** The rules of the kinds that a process knows. */
export interface RetentionPublication {
  /** The process. */
  readonly publisher: string
  /** The same for all processes with the same kinds: one that starts replaces those that have stopped. */
  readonly program: string
  readonly rules: ReadonlyArray<RetentionRule>
  /** Milliseconds that the process counts as running without another publication; 0 when it stops. */
  readonly ttlMs: number
  /** Milliseconds for which rules of another program that has stopped stay, although this process knows the kind. */
  readonly graceMs: number
}

/** A rule as a process published it. */
export interface PublishedRule extends RetentionRule {
  readonly publisher: string
  readonly program: string
  /** Milliseconds since the process stopped; `null` while it is running. */
  readonly stoppedForMs: number | null
}

/** Whether a publication removes this rule of another process, which has stopped. */
export const isReplaced = (
  { kind, program, stoppedForMs }: Pick<PublishedRule, "kind" | "program" | "stoppedForMs">,
  publication: RetentionPublication,
): boolean =>
  stoppedForMs !== null &&
  publication.rules.some((rule) => rule.kind === kind) &&
  (program === publication.program || stoppedForMs >= publication.graceMs)

const longer = (a: number | null, b: number | null): number | null => (a === null || b === null ? null : Math.max(a, b))

/** Returns the rule in force for each kind, by name: the longest of those that processes have published for it. */
export const rulesInForce = (published: ReadonlyArray<RetentionRule>): ReadonlyArray<RetentionRule> => {
  const byKind = new Map<string, RetentionRule>()
  for (const { dataMs, jobsMs, kind } of published) {
    const known = byKind.get(kind)
    byKind.set(
      kind,
      known === undefined
        ? { kind, dataMs, jobsMs }
        : { kind, dataMs: longer(known.dataMs, dataMs), jobsMs: longer(known.jobsMs, jobsMs) },
    )
  }
  return [...byKind.values()].sort((a, b) => (a.kind < b.kind ? -1 : 1))
}

/** Returns the periods by these rules. Jobs of a kind without a rule are kept: no process that knows them has said anything else. */
export const periodsOf = (rules: ReadonlyArray<RetentionRule>): RetentionPeriods => {
  const agesBy = (period: "dataMs" | "jobsMs") => ({
    others: Infinity,
    byKind: Object.fromEntries(
      rules.flatMap((rule) => (rule.kind === ruleOfUploads ? [] : [[rule.kind, rule[period] ?? Infinity]])),
    ),
  })
  const uploads = rules.find(({ kind }) => kind === ruleOfUploads)
  return { data: agesBy("dataMs"), jobs: agesBy("jobsMs"), uploads: uploads?.jobsMs ?? Infinity }
}
