import { sql } from "kysely"
import { type JobId, maxAhead, type QueuePlace, ranks } from "@kiln/core/domain"
import { select, type Values } from "../columns.ts"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"
import { runningJobs } from "./runningJobs.ts"

const placeOfJob = statement((given: Given<Values<"jobs", "id">>) =>
  query
    .selectFrom("jobs")
    .select(select("jobs", "id", "lane_id", "priority", "claimable_at", "project_id", "kind", "mode"))
    .where("id", "=", given.id),
)

type Before = Values<"jobs", "lane_id" | "priority" | "id"> & { readonly claimableAt: number; readonly limit: number }

/** Counts the jobs of a lane and rank that come before a place, up to a limit, in the order of the index. */
const jobsBeforePlace = statement((given: Given<Before>) =>
  query
    .selectFrom((from) =>
      from
        .selectFrom("jobs")
        .select("lane_id")
        .where("held", "=", 0)
        .where("lane_id", "=", given.laneId)
        .where("priority", "=", given.priority)
        .where("claimable_at", "is not", null)
        .where(sql<boolean>`(claimable_at, id) < (${given.claimableAt}, ${given.id})`)
        .limit(given.limit)
        .as("before"),
    )
    .select((of) => of.fn.countAll<number>().as("count")),
)

/** Finds the place of an unfinished job: see `JobDirectory.findPlace`. */
export const findPlace = (tx: Transaction, id: JobId): QueuePlace | undefined => {
  const job = tx.get(placeOfJob, { id })
  if (job === undefined || job.claimableAt === null) return undefined
  const { now } = tx
  const { claimableAt, kind, laneId, mode, priority, projectId } = job
  let ahead = 0
  for (const rank of ranks) {
    if (rank < priority || ahead >= maxAhead) break
    // No id is before the empty one, so jobs that become claimable after now are left out.
    const place =
      rank === priority && claimableAt <= now ? { claimableAt, id } : { claimableAt: now + 1, id: "" as JobId }
    ahead += tx.get(jobsBeforePlace, { laneId, priority: rank, limit: maxAhead - ahead, ...place })?.count ?? 0
  }
  const running = tx.all(runningJobs, { now }).filter((lane) => lane.mode === mode)
  const count = (lanes: typeof running) => lanes.reduce((sum, lane) => sum + lane.count, 0)
  return {
    now,
    ahead,
    running: {
      kind: count(running.filter((lane) => lane.kind === kind)),
      project: count(running.filter((lane) => lane.projectId === projectId)),
      all: count(running),
    },
  }
}
