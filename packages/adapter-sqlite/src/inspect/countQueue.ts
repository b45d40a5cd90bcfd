import { sql } from "kysely"
import type { QueueGroup } from "@kiln/core/ports"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"

type Now = { readonly now: number }

const stateAt = ({ now }: Given<Now>) =>
  sql<QueueGroup["state"]>`CASE WHEN held = 0 THEN CASE WHEN claimable_at <= ${now} THEN 'ready' ELSE 'delayed' END
    WHEN claimable_at <= ${now} THEN 'lapsed' ELSE 'running' END`

/** Reads the unfinished jobs lane by lane, from the index of ready jobs. */
const groupsOfQueue = statement((given: Given<Now>) =>
  query
    .selectFrom("lanes")
    .crossJoin("jobs")
    .select((of) => [
      "lanes.kind",
      "lanes.mode",
      stateAt(given).as("state"),
      of.fn.countAll<number>().as("count"),
      of.fn.min<number>("claimable_at").as("firstAt"),
    ])
    .where("jobs.held", "in", [0, 1])
    .whereRef("jobs.lane_id", "=", "lanes.id")
    .where("claimable_at", "is not", null)
    .groupBy(["lanes.kind", "lanes.mode", "state"])
    .orderBy("lanes.kind")
    .orderBy("lanes.mode")
    .orderBy("state"),
)

export const countQueue = (tx: Transaction): ReadonlyArray<QueueGroup> =>
  tx.all(groupsOfQueue, { now: tx.now }).map(({ firstAt, ...group }) => ({
    ...group,
    oldestMs: Math.max(0, tx.now - firstAt),
  }))
