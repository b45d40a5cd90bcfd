import { type ExpressionBuilder, sql } from "kysely"
import type { RetainedData } from "@kiln/core/domain"
import type { Tables } from "../columns.ts"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"

/** The first kind after another that has finished jobs which retain this. */
export const nextFinishedKind = statement((given: Given<{ readonly retained: RetainedData; readonly after: string }>) =>
  query
    .selectFrom("jobs")
    .select("kind")
    .where("retained", "=", given.retained)
    .where("kind", ">", given.after)
    .where("finished_at", "is not", null)
    .orderBy("kind")
    .limit(1),
)

/** Lists the kinds of finished jobs that retain this, with one search of the index for each kind, however many jobs there are. */
export const finishedKinds = (tx: Transaction, retained: RetainedData): ReadonlyArray<string> => {
  const kinds: Array<string> = []
  // No kind has an empty name.
  for (let after = ""; ;) {
    const next = tx.get(nextFinishedKind, { retained, after })
    if (next === undefined) return kinds
    kinds.push(next.kind)
    after = next.kind
  }
}

const label = sql.ref("job_labels.label")

/**
 * Whether no unfinished job is the parent of this one, and none is to start after it. A parent is found by the label that its children
 * have, and a job that starts after this one by a label of its own. Most jobs have none of them, and cost two searches of an index.
 */
export const isNotNeeded = (where: ExpressionBuilder<Tables, "jobs">) =>
  where.and([isNotPrerequisite(where), isNotChild(where)])

const isNotPrerequisite = (where: ExpressionBuilder<Tables, "jobs">) =>
  where.not(
    where.exists(
      where
        .selectFrom("job_labels")
        .innerJoin("jobs as dependent", "dependent.seq", "job_labels.job_seq")
        .select("dependent.seq")
        .where("job_labels.label", "=", sql<string>`'~' || ${sql.ref("jobs.id")}`)
        .where("dependent.finished_at", "is", null),
    ),
  )

const isNotChild = (where: ExpressionBuilder<Tables, "jobs">) =>
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
