import { priorities, priorityRank } from "@kiln/core/domain"

/** The priorities as rows hold them, the one that is served first at the head. */
export const ranks: ReadonlyArray<number> = priorities.map((priority) => priorityRank[priority])

/** All there are in a lane that never had a job of another priority. */
export const normalOnly: ReadonlyArray<number> = [priorityRank.normal]
