import type { ExpressionBuilder } from "kysely"
import { sql } from "kysely"
import type { Tables } from "../columns.ts"

const label = sql.ref("job_labels.label")

/**
 * Whether no unfinished job is the parent of this one. A parent is found by the label that its children have. Most jobs have no
 * labels, and cost one search of an index.
 */
export const isNotNeeded = (where: ExpressionBuilder<Tables, "jobs">) =>
  where.not(
    where.exists(
      where
        .selectFrom("job_labels")
        .innerJoin("jobs as parent", (join) => join.on("parent.id", "=", sql<`job_${string}`>`substr(${label}, 2)`))
        .select("parent.seq")
        .whereRef("job_labels.job_seq", "=", "jobs.seq")
        .where(sql<string>`substr(${label}, 1, 1)`, "=", "^")
        .where("parent.finished_at", "is", null),
    ),
  )
