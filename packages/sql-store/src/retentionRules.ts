import { sql } from "kysely"
import type { PublishedRule } from "@kiln/core/ports"
import { select } from "./columns.ts"
import type { Program, Sql } from "./Sql.ts"
import { query, statement, storeTime } from "./Statement.ts"

const allRules = statement(() =>
  query
    .selectFrom("retention_rules")
    .select(select("retention_rules", "kind", "data_ms", "jobs_ms", "publisher", "program"))
    .select(
      sql<number | null>`case when live_until <= ${storeTime} then ${storeTime} - live_until end`.as("stoppedForMs"),
    )
    .orderBy("kind")
    .orderBy("publisher"),
)

export function* readRetention(tx: Sql): Program<ReadonlyArray<PublishedRule>> {
  return yield* tx.all(allRules, {})
}
