import { sql } from "kysely"
import { idBody, type JobId, type UploadId } from "@kiln/core/domain"
import type { PublishedRule, StoredLineage } from "@kiln/core/ports"
import { select, type Values } from "./columns.ts"
import type { Program, Sql } from "./Sql.ts"
import { type Given, query, statement, storeTime } from "./Statement.ts"

/** Every id. With it, SQLite finds the last entry of an index instead of scanning it. */
const anyId = sql<boolean>`id > ''`

/** One statement, so from one snapshot. */
export const storedLineage = statement(() =>
  query
    .selectNoFrom((from) => [
      sql<number>`${storeTime}`.as("now"),
      from.selectFrom("jobs").select("id").where(anyId).orderBy("id", "desc").limit(1).as("newestJob"),
      from.selectFrom("uploads").select("id").where(anyId).orderBy("id", "desc").limit(1).as("newestUpload"),
      from.selectFrom("blob_lineage").select("version").as("version"),
      from.selectFrom("blob_lineage").select("document").as("document"),
    ])
    .$castTo<{
      readonly now: number
      readonly newestJob: JobId | null
      readonly newestUpload: UploadId | null
      readonly version: number | null
      readonly document: string | null
    }>(),
)

/** If several processes write the first version, only one inserts the row. */
const insertLineage = statement((given: Given<Values<"blob_lineage", "document">>) =>
  query
    .insertInto("blob_lineage")
    .values({ id: 1, version: 1, document: given.document })
    .onConflict((conflict) => conflict.column("id").doNothing()),
)

const replaceLineage = statement((given: Given<Values<"blob_lineage", "version" | "document">>) =>
  query
    .updateTable("blob_lineage")
    .set((column) => ({ version: column("version", "+", 1), document: given.document }))
    .where("version", "=", given.version),
)

export function* readLineage(tx: Sql): Program<StoredLineage> {
  const row = yield* tx.get(storedLineage, {})
  if (row === undefined) throw new TypeError("a statement without a table returned no row")
  const ids = [row.newestJob, row.newestUpload].flatMap((id) => (id === null ? [] : [idBody(id)]))
  return { version: row.version ?? 0, document: row.document, now: row.now, newestId: ids.toSorted().at(-1) ?? null }
}

export function* writeLineage(tx: Sql, version: number, document: string): Program<boolean> {
  const written = version === 0 ? tx.run(insertLineage, { document }) : tx.run(replaceLineage, { version, document })
  return (yield* written) > 0
}

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
