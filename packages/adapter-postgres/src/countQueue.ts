import { sql } from "kysely"
import type { QueueGroup } from "@kiln/core/ports"
import type { Session } from "./Session.ts"
import { query, statement, storeTime } from "./Statement.ts"

const state = sql<QueueGroup["state"]>`case
  when not queue.held then case when queue.claimable_at <= ${storeTime} then 'ready' else 'delayed' end
  when queue.claimable_at <= ${storeTime} then 'lapsed' else 'running' end`

const groupsOfQueue = statement(() =>
  query
    .selectFrom("queue")
    .select((of) => [
      "queue.kind",
      "queue.mode",
      state.as("state"),
      of.fn.countAll<number>().as("count"),
      sql<number>`greatest(${storeTime} - min(queue.claimable_at), 0)`.as("oldestMs"),
    ])
    .groupBy([sql.ref("queue.kind"), sql.ref("queue.mode"), sql`3`])
    .orderBy(sql`1`)
    .orderBy(sql`2`)
    .orderBy(sql`3`),
)

export const countQueue = (session: Session): Promise<ReadonlyArray<QueueGroup>> =>
  session.all(groupsOfQueue, {}) as Promise<ReadonlyArray<QueueGroup>>
