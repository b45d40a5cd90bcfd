import { sql } from "kysely"
import { afterLabel, applyEvent, isFinished, type JobId, overdueEvent, waitsSince } from "@kiln/core/domain"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"
import { stateColumns, stateOf, type StateRow } from "./JobRow.ts"
import { mayBeClaimableAt } from "./lanes.ts"
import { writeState } from "./writeState.ts"

type Due = { readonly now: number; readonly limit: number }

/** Jobs that are not held, longest overdue first, from an index that holds no others. */
export const overdueWaiting = statement((given: Given<Due>) =>
  query
    .selectFrom("jobs")
    .select(stateColumns)
    .where("held", "=", 0)
    .where("deadline_at", "<=", given.now)
    .orderBy("deadline_at")
    .orderBy("seq")
    .limit(given.limit),
)

/** Held jobs whose lease has ended, which it does before the deadline. Looks at the few held jobs in the index of ready ones. */
export const overdueHeld = statement((given: Given<Due>) =>
  query
    .selectFrom("jobs")
    .select(stateColumns)
    .where("held", "=", 1)
    .where("claimable_at", "<=", given.now)
    .where("deadline_at", "<=", given.now)
    .limit(given.limit),
)

const prefix = afterLabel("" as JobId)

/** When the prerequisites of a job finished. */
const prerequisiteEnds = statement((given: Given<{ readonly seq: number }>) =>
  query
    .selectFrom("jobs")
    .select("finished_at as finishedAt")
    .where("id", "in", (from) =>
      from
        .selectFrom("job_labels")
        .select(sql<JobId>`substr(label, ${sql.lit(prefix.length + 1)})`.as("id"))
        .where("job_seq", "=", given.seq)
        .where(sql<boolean>`substr(label, 1, ${sql.lit(prefix.length)}) = ${sql.lit(prefix)}`),
    ),
)

/** Returns since when a job waits that no worker has claimed. */
const waitsOf = (tx: Transaction, { seq, status }: StateRow): number | undefined =>
  status === "queued"
    ? waitsSince(
        tx.all(prerequisiteEnds, { seq }).map(({ finishedAt }) => finishedAt),
        tx.now,
      )
    : undefined

/** Longest overdue first. */
const overdueJobs = (tx: Transaction, due: Due): ReadonlyArray<StateRow> =>
  [...tx.all(overdueWaiting, due), ...tx.all(overdueHeld, due)]
    .sort((a, b) => (a.deadlineAt ?? 0) - (b.deadlineAt ?? 0) || a.seq - b.seq)
    .slice(0, due.limit)

export const expireJobs = (tx: Transaction, limit: number): ReadonlyArray<JobId> => {
  const failed: Array<JobId> = []
  // A job whose worker was lost returns to its queue, and one that waits for prerequisites stays there. They do not count, so reaching the
  // limit may take several reads.
  for (let more = limit > 0; more && failed.length < limit;) {
    const jobs = overdueJobs(tx, { now: tx.now, limit: limit - failed.length })
    more = false
    for (const job of jobs) {
      const state = { ...stateOf(job), createdAt: job.createdAt }
      const next = applyEvent(state, overdueEvent(state, tx.now, waitsOf(tx, job)), tx.now)
      if (next === undefined || !writeState(tx, job, next)) throw new TypeError(`${job.id} cannot expire`)
      if (isFinished(next)) failed.push(job.id)
      else {
        more = true
        mayBeClaimableAt(tx, job.laneId, next.claimableAt ?? tx.now)
      }
    }
  }
  return failed
}
