import type { JobMode, ProjectId } from "@kiln/core/domain"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"
import { laneKind } from "./laneKind.ts"

const selectLane = statement((given: Given<{ projectId: ProjectId; kind: string; mode: JobMode }>) =>
  query
    .selectFrom("lanes")
    .select("id")
    .where("project_id", "=", given.projectId)
    .where("kind", "=", given.kind)
    .where("mode", "=", given.mode),
)

/** Lanes are numbered in the order of their creation, which is the order among lanes of equal turn. */
const insertLane = statement((given: Given<{ projectId: ProjectId; kind: string; mode: JobMode }>) =>
  query.insertInto("lanes").values({ project_id: given.projectId, kind: given.kind, mode: given.mode, next_at: null }),
)

export const laneOf = (
  tx: Transaction,
  job: {
    readonly projectId: ProjectId
    readonly kind: string
    readonly kindVersion: number
    readonly mode: JobMode
  },
): number => {
  const { mode, projectId } = job
  const kind = laneKind(job.kind, job.kindVersion)
  const lane = tx.get(selectLane, { projectId, kind, mode })
  if (lane !== undefined) return lane.id
  tx.run(insertLane, { projectId, kind, mode })
  const inserted = tx.get(selectLane, { projectId, kind, mode })
  if (inserted === undefined) throw new TypeError("an inserted lane has an id")
  return inserted.id
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
