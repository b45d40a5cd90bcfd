import { JobsInProgress, isLimiting } from "@kiln/core/domain"
import type { ClaimRequest } from "@kiln/core/ports"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"

/** Counts jobs under a lease, lane by lane, from an index that holds only claimed jobs. */
export const runningJobs = statement((given: Given<{ readonly now: number }>) =>
  query
    .selectFrom((from) =>
      from
        .selectFrom("jobs")
        .select("lane_id")
        .select((of) => [of.fn.countAll<number>().as("count"), of.fn.min<number>("claimable_at").as("firstEnd")])
        .where("held", "=", 1)
        .where("claimable_at", ">", given.now)
        .groupBy("lane_id")
        .as("running"),
    )
    .innerJoin("lanes", "lanes.id", "running.lane_id")
    .select(["lanes.mode", "lanes.kind", "lanes.project_id as projectId", "running.count", "running.firstEnd"]),
)

/** Counts the running jobs if there are limits to compare them with. */
export const countRunning = (tx: Transaction, { limits, worker }: ClaimRequest): JobsInProgress =>
  new JobsInProgress(limits, isLimiting(limits) ? tx.all(runningJobs, { now: tx.now }) : [], worker)
