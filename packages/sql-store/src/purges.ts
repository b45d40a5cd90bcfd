import type { DuePurges, Purge } from "@kiln/core/ports"
import { select } from "./columns.ts"
import type { Program, Sql } from "./Sql.ts"
import { type Given, query, statement, storeTime } from "./Statement.ts"

/** In the order in which they were recorded. */
const oldestPurges = statement((given: Given<{ readonly limit: number }>) =>
  query.selectFrom("purges").select(select("purges", "blob_prefix")).orderBy("id").limit(given.limit),
)

export function* listPurges(tx: Sql, limit: number): Program<ReadonlyArray<Purge>> {
  return yield* tx.all(oldestPurges, { limit })
}

/** In the order of an index, which also holds those that are not due. */
export const nextDue = statement((given: Given<{ readonly limit: number }>) =>
  query
    .selectFrom("purges")
    .select(select("purges", "blob_prefix"))
    .where("due_at", "<=", storeTime)
    .orderBy("failures")
    .orderBy("due_at")
    .orderBy("id")
    .limit(given.limit),
)

export function* nextPurges(tx: Sql, limit: number): Program<ReadonlyArray<Purge>> {
  return yield* tx.all(nextDue, { limit })
}

const purgesDue = statement(() =>
  query
    .selectFrom("purges")
    .select((of) => [of.fn.countAll<number>().as("count"), of.fn.min<number | null>("recorded_at").as("oldestAt")]),
)

export function* readDuePurges(tx: Sql): Program<DuePurges> {
  const row = yield* tx.get(purgesDue, {})
  const now = yield* tx.now()
  return { count: row?.count ?? 0, oldestAgeMs: Math.max(0, now - (row?.oldestAt ?? now)) }
}
