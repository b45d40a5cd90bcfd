import { assign, select, type Values } from "../columns.ts"
import { type Given, query, type RowOf, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"

/** A lane holds the jobs of one project, kind, version and mode. */
type LaneKey = Values<"lanes", "project_id" | "kind" | "kind_version" | "mode">

const laneByKey = statement((given: Given<LaneKey>) =>
  query
    .selectFrom("lanes")
    .select(select("lanes", "id", "next_at", "prioritized"))
    .where("project_id", "=", given.projectId)
    .where("kind", "=", given.kind)
    .where("kind_version", "=", given.kindVersion)
    .where("mode", "=", given.mode),
)

export type LaneRow = RowOf<typeof laneByKey>

/** Lanes are numbered in order of creation, which decides between lanes of the same virtual time. */
const insertLane = statement((given: Given<LaneKey>) =>
  query.insertInto("lanes").values(assign(given, "project_id", "kind", "kind_version", "mode")),
)

const keyOf = ({ kind, kindVersion, mode, projectId }: LaneKey): LaneKey => ({ projectId, kind, kindVersion, mode })

export const findLane = (tx: Transaction, job: LaneKey): LaneRow | undefined => tx.get(laneByKey, keyOf(job))

export const createLane = (tx: Transaction, job: LaneKey): LaneRow => {
  const id = tx.insert(insertLane, keyOf(job))
  if (id === undefined) throw new TypeError("the lane was not inserted")
  return { id, nextAt: null, prioritized: 0 }
}

/** From now on, claims look for all priorities in this lane. */
const prioritize = statement((given: Given<Values<"lanes", "id">>) =>
  query.updateTable("lanes").set({ prioritized: 1 }).where("id", "=", given.id).where("prioritized", "=", 0),
)

export const prioritizeLane = (tx: Transaction, id: number): void => {
  tx.run(prioritize, { id })
}

/**
 * Keeps `next_at` a lower bound. Writes only an earlier time, so creating and extending jobs rarely write here; a claim that
 * finds nothing raises it again.
 */
const lowerNextAt = statement((given: Given<{ readonly id: number; readonly nextAt: number }>) =>
  query
    .updateTable("lanes")
    .set({ next_at: given.nextAt })
    .where("id", "=", given.id)
    .where((where) => where.or([where("next_at", "is", null), where("next_at", ">", given.nextAt)])),
)

/** Records that a job of this lane may become claimable at `nextAt`. */
export const mayBeClaimableAt = (tx: Transaction, id: number, nextAt: number): void => {
  tx.run(lowerNextAt, { id, nextAt })
}
