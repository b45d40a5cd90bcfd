import type { Job } from "@kiln/core/domain"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"

/** A lane is one project's jobs of one kind, version and mode. */
type LaneKey = Pick<Job, "projectId" | "kind" | "kindVersion" | "mode">

const selectLane = statement((given: Given<LaneKey>) =>
  query
    .selectFrom("lanes")
    .select("id")
    .where("project_id", "=", given.projectId)
    .where("kind", "=", given.kind)
    .where("kind_version", "=", given.kindVersion)
    .where("mode", "=", given.mode),
)

/** Lanes are numbered in the order of their creation, which is the order among lanes of equal turn. */
const insertLane = statement((given: Given<LaneKey>) =>
  query.insertInto("lanes").values({
    project_id: given.projectId,
    kind: given.kind,
    kind_version: given.kindVersion,
    mode: given.mode,
    next_at: null,
  }),
)

export const laneOf = (tx: Transaction, { kind, kindVersion, mode, projectId }: LaneKey): number => {
  const key = { projectId, kind, kindVersion, mode }
  const lane = tx.get(selectLane, key)
  if (lane !== undefined) return lane.id
  tx.run(insertLane, key)
  const inserted = tx.get(selectLane, key)
  if (inserted === undefined) throw new TypeError("an inserted lane was not found")
  return inserted.id
}

/** From now on, claims look for all priorities in this lane. */
const prioritize = statement((given: Given<{ laneId: number }>) =>
  query.updateTable("lanes").set({ prioritized: 1 }).where("id", "=", given.laneId).where("prioritized", "=", 0),
)

export const hasPriorities = (tx: Transaction, laneId: number): void => {
  tx.run(prioritize, { laneId })
}

/**
 * Keeps `next_at` a lower bound. Only a time that comes earlier is written, so creating and
 * extending seldom write here at all; a claim raises it again when it looked.
 */
const lowerNextAt = statement((given: Given<{ laneId: number; nextAt: number }>) =>
  query
    .updateTable("lanes")
    .set({ next_at: given.nextAt })
    .where("id", "=", given.laneId)
    .where((where) => where.or([where("next_at", "is", null), where("next_at", ">", given.nextAt)])),
)

/** Says that a job of this lane may become claimable then. */
export const mayBeClaimableAt = (tx: Transaction, laneId: number, nextAt: number): void => {
  tx.run(lowerNextAt, { laneId, nextAt })
}
