import { sql } from "kysely"
import type { JobMode, JobStatus, ProjectId, RetainedData } from "@kiln/core/domain"
import type { JobCount } from "@kiln/core/ports"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"

type Question = { projectId: ProjectId | null; now: number }

const stateOf = ({ now }: Pick<Given<Question>, "now">) =>
  sql<JobStatus | "delayed">`CASE WHEN status = 'queued' AND claimable_at > ${now} THEN 'delayed' ELSE status END`

/**
 * Reads the unfinished jobs, lane by lane, since the index of ready jobs has no others. The join is crossed, so that lanes
 * come first and a question about one project reads its jobs alone.
 */
export const unfinishedByStatus = statement((given: Given<Question>) =>
  query
    .selectFrom("lanes")
    .crossJoin("jobs")
    .select((select) => [
      "jobs.kind",
      "jobs.mode",
      stateOf(given).as("state"),
      select.fn.countAll<number>().as("count"),
    ])
    .where(sql<boolean>`(${given.projectId} IS NULL OR ${sql.ref("lanes.project_id")} = ${given.projectId})`)
    .whereRef("jobs.lane_id", "=", "lanes.id")
    .where("claimable_at", "is not", null)
    .groupBy(["jobs.kind", "jobs.mode", "state"]),
)

/** Those whose data is kept, expired and deleted stand apart in the index of finished jobs. */
export const finishedByStatus = statement(
  (given: Given<{ projectId: ProjectId | null; retained: RetainedData; finishedAfter: number }>) =>
    query
      .selectFrom("jobs")
      .select((select) => ["kind", "mode", "status as state", select.fn.countAll<number>().as("count")])
      .where(sql<boolean>`(${given.projectId} IS NULL OR project_id = ${given.projectId})`)
      .where("retained", "=", given.retained)
      .where("finished_at", ">", given.finishedAfter)
      .groupBy(["kind", "mode", "state"]),
)

const retentions: ReadonlyArray<RetainedData> = ["kept", "expired", "deleted"]

export const countJobs = (
  tx: Transaction,
  question: { readonly finishedWithinMs: number; readonly projectId?: ProjectId | undefined },
): ReadonlyArray<JobCount> => {
  const { now } = tx
  const projectId = question.projectId ?? null
  const finishedAfter = now - question.finishedWithinMs
  const rows = [
    ...tx.all(unfinishedByStatus, { projectId, now }),
    ...retentions.flatMap((retained) => tx.all(finishedByStatus, { projectId, retained, finishedAfter })),
  ]
  return inOrder(rows.map(({ count, kind, mode, state: status }) => ({ kind, mode, status, count })))
}

const nameOf = ({ kind, mode, status }: { kind: string; mode: JobMode; status: string }) => `${kind} ${mode} ${status}`

/** Adds up what several parts of an index say of the same. */
const inOrder = (counts: ReadonlyArray<JobCount>): ReadonlyArray<JobCount> => {
  const sums = new Map<string, JobCount>()
  for (const part of counts) {
    const name = nameOf(part)
    sums.set(name, { ...part, count: part.count + (sums.get(name)?.count ?? 0) })
  }
  return [...sums.keys()].sort().flatMap((name) => sums.get(name) ?? [])
}
