import { sql } from "kysely"
import { isFinished, type JobId } from "@kiln/core/domain"
import { afterLabel, applyEvent, overdueEvent, waitsSince } from "@kiln/core/rules"
import type { CancelOutcome } from "@kiln/core/ports"
import { batchStatement, type Given, integer, plenty, query, statement, storeTime } from "../Statement.ts"
import type { Transaction } from "../connection/Session.ts"
import { stateColumns, stateOf, type StateRow } from "./jobRow.ts"
import { mayBeClaimableAt } from "./lanes.ts"
import {
  type Ending,
  finishedElsewhere,
  finishJobs,
  lockedJobsAndLanes,
  type Move,
  moveJobs,
  withoutResult,
} from "./moveJobs.ts"

/** Cancels jobs. Their tokens grow, so a worker that holds one loses its claim. `jobs` were locked by this transaction. */
export const cancelJobs = async (
  tx: Transaction,
  jobIds: ReadonlyArray<JobId>,
  jobs: ReadonlyArray<StateRow>,
): Promise<ReadonlyArray<CancelOutcome>> => {
  const endings = new Map<JobId, Ending>()
  for (const from of jobs) {
    const to = applyEvent(stateOf(from), { event: "canceled" }, tx.now)
    if (to === undefined) throw new TypeError(`${from.id} cannot be canceled`)
    endings.set(from.id, withoutResult({ from, to }))
  }
  const finished = new Set(
    await finishedElsewhere(
      tx,
      jobIds.filter((id) => !endings.has(id)),
    ),
  )
  tx.commitWith(finishJobs(tx, [...endings.values()]))
  return jobIds.map((id): CancelOutcome => {
    if (endings.has(id) && !finished.has(id)) {
      // The same job again in the batch is already canceled.
      finished.add(id)
      return "Canceled"
    }
    return finished.has(id) ? "AlreadyFinished" : "NotFound"
  })
}

const prefix = afterLabel("" as JobId)

type Overdue = { now: number; limit: number }

/** Overdue jobs that nobody holds. Locked ones are left for the next sweep. */
const overdueWaiting = ({ limit, now }: Given<Overdue>) =>
  query
    .selectFrom("queue")
    .innerJoin(plenty, (join) => join.onTrue())
    .select(stateColumns)
    .where("queue.held", "=", false)
    .where("queue.deadline_at", "<=", now)
    .orderBy("queue.deadline_at")
    .orderBy("queue.job_seq")
    .limit(limit)
    .forUpdate("queue")
    .skipLocked()

/** Held ones, which are overdue only once their lease has ended. They are found by that, among the few jobs that are held. */
const overdueHeld = ({ limit, now }: Given<Overdue>) =>
  query
    .selectFrom("queue")
    .select(stateColumns)
    .where("queue.held", "=", true)
    .where("queue.claimable_at", "<=", now)
    .where("queue.deadline_at", "<=", now)
    .orderBy("queue.deadline_at")
    .orderBy("queue.job_seq")
    .limit(limit)
    .forUpdate()
    .skipLocked()

/** Overdue jobs, oldest deadline first. */
const overdueJobs = statement((given: Given<Overdue>) =>
  query
    .with("waiting", () => overdueWaiting(given))
    .with("held", () => overdueHeld(given))
    .selectFrom((from) =>
      from.selectFrom("waiting").selectAll().unionAll(from.selectFrom("held").selectAll()).as("overdue"),
    )
    .selectAll()
    .orderBy("overdue.deadlineAt")
    .orderBy("overdue.seq")
    .limit(given.limit),
)

/** When the prerequisites of jobs finished, one row for each. */
const prerequisiteEnds = batchStatement({ seq: integer() }, (item) =>
  query
    .selectFrom(item)
    .innerJoin("job_labels", (join) => join.onRef("job_labels.job_seq", "=", "item.seq"))
    .innerJoinLateral(
      (from) =>
        from
          .selectFrom("jobs")
          .select((own) =>
            own
              .selectFrom("results")
              .select("finished_at")
              .whereRef("results.job_seq", "=", "jobs.seq")
              .offset(0)
              .as("finishedAt"),
          )
          .where("jobs.id", "=", sql<JobId>`substr(job_labels.label, ${sql.lit(prefix.length + 1)})`)
          .offset(0)
          .as("named"),
      (join) => join.onTrue(),
    )
    .where(sql<boolean>`starts_with(job_labels.label, ${sql.lit(prefix)})`)
    .select(["item.seq", "named.finishedAt"]),
)

/** Returns what tells since when a job waits that no worker has claimed. */
const readWaits = async (
  tx: Transaction,
  jobs: ReadonlyArray<StateRow>,
): Promise<(job: StateRow) => number | undefined> => {
  const unclaimed = jobs.filter(({ status }) => status === "queued")
  if (unclaimed.length === 0) return () => undefined
  const ends = Map.groupBy(await tx.batch(prerequisiteEnds, unclaimed), ({ seq }) => seq)
  return ({ seq }) =>
    waitsSince(
      (ends.get(seq) ?? []).map(({ finishedAt }) => finishedAt),
      tx.now,
    )
}

/** Looks for an overdue job in the same indexes. */
export const anyOverdue = statement(() => {
  const overdue = query.selectFrom("queue").select("id").where("deadline_at", "<=", storeTime).limit(1)
  const waiting = overdue.where("held", "=", false).orderBy("deadline_at")
  // Ordered, or the planner, which takes half of the queue for held, would look for one from the beginning of the table.
  const held = overdue.where("held", "=", true).where("claimable_at", "<=", storeTime).orderBy("claimable_at")
  return query
    .selectFrom(waiting.as("waiting"))
    .selectAll()
    .unionAll(query.selectFrom(held.as("held")).selectAll())
})

/**
 * Fails overdue jobs and returns their ids. A job whose worker vanished is returned to the queue, and one that could not start before its
 * prerequisites goes on waiting. They do not count, so reaching the limit may take several queries.
 */
export const expireJobs = async (tx: Transaction, limit: number): Promise<ReadonlyArray<JobId>> => {
  const failed: Array<Move> = []
  const kept: Array<Move> = []
  for (let more = limit > 0; more && failed.length < limit;) {
    const jobs = await tx.all(overdueJobs, { now: tx.now, limit: limit - failed.length })
    const since = await readWaits(tx, jobs)
    const moves = jobs.map((from): Move => {
      const state = { ...stateOf(from), createdAt: from.createdAt }
      const to = applyEvent(state, overdueEvent(state, tx.now, since(from)), tx.now)
      if (to === undefined) throw new TypeError(`${from.id} cannot expire`)
      return { from, to }
    })
    const ends = moves.filter(({ to }) => isFinished(to))
    const takenBack = moves.filter(({ to }) => !isFinished(to))
    // Also locks their lanes, as for every job that becomes claimable earlier.
    await lockedJobsAndLanes(
      tx,
      takenBack.map(({ from }) => ({ jobId: from.id })),
    )
    await Promise.all([finishJobs(tx, ends.map(withoutResult)), moveJobs(tx, takenBack)])
    failed.push(...ends)
    kept.push(...takenBack)
    more = takenBack.length > 0
  }
  await mayBeClaimableAt(
    tx,
    kept.map(({ from, to }) => ({ laneId: from.laneId, claimableAt: to.claimableAt })),
  )
  return failed.map(({ from }) => from.id)
}
