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
