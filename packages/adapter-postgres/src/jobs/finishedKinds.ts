import { type AliasableExpression, type Compilable, type RawBuilder, sql } from "kysely"
import type { RetainedData } from "@kiln/core/domain"
import type { RetentionAge } from "@kiln/core/ports"
import type { Session } from "../connection/Session.ts"
import { type Given, plenty, query, statement, wholeAge } from "../Statement.ts"
import { retainedPart } from "./jobRow.ts"

/**
 * Lists the kinds of finished jobs that retain this, with one search of the index for each kind, however many jobs there are: a
 * table with the column `kind`. No kind has an empty name.
 */
export const finishedKinds = (retained: RawBuilder<RetainedData>) =>
  sql<{ kind: string }>`(
    with recursive present (kind) as (
      select '' collate "C"
      union all
      select next.kind from present cross join lateral (
        select results.kind from "kiln".results
        where ${retainedPart} = ${retained} and results.kind > present.kind
        order by results.kind limit 1
      ) as next
    )
    select kind from present where kind <> ''
  )`

const kindsThat = statement((given: Given<{ retained: RetainedData }>) =>
  query.selectFrom(finishedKinds(given.retained).as("kinds")).select("kinds.kind"),
)

export const readFinishedKinds = async (session: Session, retained: RetainedData): Promise<ReadonlyArray<string>> =>
  (await session.all(kindsThat, { retained })).map(({ kind }) => kind)

/** How old the finished jobs of each kind must be, as the parameters of a statement. */
export type Ages = { othersMs: number; agesByKind: string }

export const agesFrom = (olderThanMs: RetentionAge): Ages => {
  const { byKind, others } = typeof olderThanMs === "number" ? { byKind: {}, others: olderThanMs } : olderThanMs
  const whole = Object.entries(byKind).map(([kind, ms]) => [kind, wholeAge(ms)])
  return { othersMs: wholeAge(others), agesByKind: JSON.stringify(Object.fromEntries(whole)) }
}

/** The age that applies to the kind of the current row of `kinds`. */
const ageOfKind = ({ agesByKind, othersMs }: Given<Ages>) =>
  sql<number>`coalesce((${agesByKind}::json ->> kinds.kind)::bigint, ${othersMs}::bigint)`

/**
 * Whether no unfinished job is the parent of this one, and none is to start after it. A parent is found by the label that its children
 * have, and a job that starts after this one by a label of its own. Most jobs have none of them, and cost two searches of an index; OFFSET
 * 0, or the planner might read all labels.
 */
export const isNotNeeded = sql<boolean>`not exists (
  select from "kiln".job_labels where job_labels.label = '~' || results.job_id and exists (
    select from "kiln".queue where queue.id = job_labels.job_id offset 0)
  offset 0) and not exists (
  select from "kiln".job_labels
  where job_labels.job_seq = results.job_seq and left(job_labels.label, 1) = '^' and exists (
    select from "kiln".queue where queue.id = substr(job_labels.label, 2) offset 0)
  offset 0)`

/** Selects finished jobs that are due at `now`: of each kind the oldest, up to `limit`. Reads no others. */
export const dueJobs = (
  given: Given<Ages>,
  retained: RetainedData,
  now: RawBuilder<number>,
  limit: RawBuilder<number>,
): AliasableExpression<{ seq: number }> & Compilable<{ seq: number }> =>
  query
    .selectFrom(finishedKinds(sql.lit(retained)).as("kinds"))
    .innerJoinLateral(
      () =>
        query
          .selectFrom("results")
          .innerJoin(plenty, (join) => join.onTrue())
          .select("results.job_seq as seq")
          .where(retainedPart, "=", retained)
          .where(sql<boolean>`results.kind = kinds.kind`)
          .where(sql<boolean>`results.finished_at <= ${now} - ${ageOfKind(given)}`)
          .where(isNotNeeded)
          .orderBy("results.finished_at")
          .orderBy("results.job_seq")
          .limit(limit)
          .as("due"),
      (join) => join.onTrue(),
    )
    .select("due.seq")
    .limit(limit)
