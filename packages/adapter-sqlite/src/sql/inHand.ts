import { InHand, isLimiting } from "@kiln/core/domain"
import type { ClaimRequest } from "@kiln/core/ports"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"

/** Counted in an index of held jobs alone, in its order: however many jobs there are, those in hand are few. */
export const jobsInHand = statement((given: Given<{ now: number }>) =>
  query
    .selectFrom("jobs")
    .select(["mode", "kind", "project_id as projectId"])
    .select((select) => [
      select.fn.countAll<number>().as("count"),
      select.fn.min<number>("claimable_at").as("firstEnd"),
    ])
    .where("held", "=", 1)
    .where("claimable_at", ">", given.now)
    .groupBy(["mode", "kind", "project_id"]),
)

/** The jobs in hand, if limits ask for them. */
export const loadInHand = (tx: Transaction, { limits, worker }: ClaimRequest): InHand =>
  new InHand(limits, isLimiting(limits) ? tx.all(jobsInHand, { now: tx.now }) : [], worker)
