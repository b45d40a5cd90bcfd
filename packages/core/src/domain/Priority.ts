/** The priorities that have names. */
export type PriorityName = "low" | "normal" | "high" | "urgent"

/**
 * The rank of a job among the waiting jobs of its own project, kind and mode: a name where there is one, otherwise the number. It
 * never takes a turn from another project.
 */
export type Priority = PriorityName | -5 | -4 | -3 | -2 | 3 | 4 | 5

/** The names, in the order in which they are served. */
export const priorities = ["urgent", "high", "normal", "low"] as const satisfies ReadonlyArray<PriorityName>

/** The rank of each name. Jobs with the highest rank are served first. */
const priorityRank: Readonly<Record<PriorityName, number>> = { urgent: 2, high: 1, normal: 0, low: -1 }

const highestRank = 5
const lowestRank = -5

/** The ranks by which stores order, in the order in which they are served: the integers from 5 to -5. */
export const ranks: ReadonlyArray<number> = Array.from(
  { length: highestRank - lowestRank + 1 },
  (_, n) => highestRank - n,
)

/** Returns the rank of a priority, by which stores order. */
export const rankOf = (priority: Priority): number => (typeof priority === "number" ? priority : priorityRank[priority])

const priorityOf = new Map(
  ranks.map((rank) => [rank, priorities.find((name) => priorityRank[name] === rank) ?? (rank as Priority)]),
)

/** Returns the priority with this rank; `undefined` for a number out of range. */
export const priorityOfRank = (rank: number): Priority | undefined => priorityOf.get(rank)

/** Returns the priority that a caller gave as a name or a number. Throws `TypeError` for anything else. */
export const readPriority = (given: PriorityName | number): Priority => {
  const known = typeof given === "number" ? priorityOfRank(given) : priorities.find((name) => name === given)
  if (known === undefined)
    throw new TypeError(
      `priority must be ${priorities.join(", ")} or an integer from ${lowestRank} to ${highestRank}, not ${shown(given)}`,
    )
  return known
}

const shown = (given: unknown): string => (typeof given === "string" ? JSON.stringify(given) : String(given))
