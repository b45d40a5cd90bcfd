/** The rank of a job among the waiting jobs of its own project, kind and mode. It never takes a turn from another project. */
export type Priority = "low" | "normal" | "high" | "urgent"

/** In the order in which they are served. */
export const priorities = ["urgent", "high", "normal", "low"] as const satisfies ReadonlyArray<Priority>

/** The rank by which stores order: jobs served first have the highest. `normal` is 0. */
export const priorityRank: Readonly<Record<Priority, number>> = { urgent: 2, high: 1, normal: 0, low: -1 }

/** Returns the priority with this rank; `undefined` for any other number. */
export const priorityOfRank = (rank: number): Priority | undefined =>
  priorities.find((priority) => priorityRank[priority] === rank)
