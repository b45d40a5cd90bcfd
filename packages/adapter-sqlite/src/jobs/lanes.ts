import { sql } from "kysely"
import { priorityRank, ranks } from "@kiln/core/domain"
import { assign, select, type Values } from "../columns.ts"
import { type Given, query, type RowOf, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"

/** A lane holds the jobs of one project, kind, version and mode. */
type LaneKey = Values<"lanes", "project_id" | "kind" | "kind_version" | "mode">

const laneByKey = statement((given: Given<LaneKey>) =>
  query
    .selectFrom("lanes")
    .select(select("lanes", "id", "next_at", "ranks"))
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
  return { id, nextAt: null, ranks: bitOf(priorityRank.normal) }
}

const addBit = statement((given: Given<Values<"lanes", "id"> & { readonly bit: number }>) =>
  query
    .updateTable("lanes")
    .set({ ranks: sql<number>`ranks | ${given.bit}` })
    .where("id", "=", given.id),
)

/** From now on, claims look for jobs of this rank in this lane. */
export const addRank = (tx: Transaction, id: number, rank: number): void => {
  tx.run(addBit, { id, bit: bitOf(rank) })
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

/** Reads every lane. Lanes stay when their jobs are deleted. */
export const allKinds = statement(() => query.selectFrom("lanes").select("kind").distinct().orderBy("kind"))

// Lanes keep which ranks their jobs ever had, a bit for each, so that claims look only for those.

const lowest = Math.min(...ranks)

export const bitOf = (rank: number): number => 1 << (rank - lowest)

/** Returns the ranks of a lane in the order in which they are served. */
export const ranksIn = (bits: number): ReadonlyArray<number> => ranks.filter((rank) => (bits & bitOf(rank)) !== 0)

/** Whether a lane knows a rank. */
export const knowsRank = ({ priority }: Given<{ readonly priority: number }>) =>
  sql<boolean>`((ranks >> (${priority} - ${sql.lit(lowest)})) & 1 = 1)`
