import { type RawBuilder, sql } from "kysely"
import { type AttemptWait, isFinished, type JobId, type JsonObject, type Parking } from "@kiln/core/domain"
import {
  afterLabel,
  applyEvent,
  type ClaimEnd,
  deferralEvent,
  failedOutput,
  holdsClaim,
  isRepeatedEnd,
  maxWaitRuns,
  overdueEvent,
  refusedJob,
  waitsSince,
  withinReservation,
  withWait,
} from "@kiln/core/rules"
import type { CancelOutcome, ClaimRef, Completion, Deferral, Failure, FencedOutcome, NewJob } from "@kiln/core/ports"
import { keepAttempts, keepParked, waitColumns } from "@kiln/sql-store"
import { type Given, listStatement, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"
import { runIn } from "../transactionsOf.ts"
import { assign, type Row, select, type Values } from "../columns.ts"
import { reservationOf } from "../spending.ts"
import { stateById, stateColumns, stateOf, type StateRow, writeState } from "./JobRow.ts"
import { createJobs } from "./createJobs.ts"
import { mayBeClaimableAt } from "./lanes.ts"
import { eventState } from "./waitingJobs.ts"

const waitsOfJob = statement((given: Given<Values<"waits", "job_seq">>) =>
  query
    .selectFrom("waits")
    .select(select("waits", ...waitColumns))
    .where("job_seq", "=", given.jobSeq)
    .orderBy("first_attempt"),
)

const putWait = statement((given: Given<Values<"waits", "job_seq" | (typeof waitColumns)[number]>>) =>
  query
    .insertInto("waits")
    .values(assign(given, "job_seq", ...waitColumns))
    .onConflict((conflict) =>
      conflict.columns(["job_seq", "first_attempt"]).doUpdateSet(assign(given, "last_attempt", "count", "last_at")),
    ),
)

const dropWaits = statement((given: Given<Values<"waits", "job_seq" | "first_attempt">>) =>
  query.deleteFrom("waits").where("job_seq", "=", given.jobSeq).where("first_attempt", "<", given.firstAttempt),
)

/** Keeps that the attempt that ends in this transaction ended to wait. */
const keepWait = (tx: Transaction, jobSeq: number, attempt: number, wait: AttemptWait): void => {
  const runs = withWait(tx.all(waitsOfJob, { jobSeq }), wait, attempt, tx.now)
  const [oldest] = runs
  const newest = runs.at(-1)
  if (oldest === undefined || newest === undefined) return
  tx.run(putWait, { jobSeq, ...newest })
  if (runs.length === maxWaitRuns) tx.run(dropWaits, { jobSeq, firstAttempt: oldest.firstAttempt })
}

/** Ends a claim without a result: the job fails or waits for its next attempt. A repeat is recognized and writes nothing. */
const endClaim = (
  tx: Transaction,
  { jobId, record, wait }: ClaimRef & Pick<Deferral, "record" | "wait">,
  endOf: (job: StateRow) => ClaimEnd,
  output?: JsonObject,
): FencedOutcome => {
  const job = tx.get(stateById, { id: jobId })
  if (job === undefined) return "LeaseLost"
  const state = stateOf(job)
  const end = endOf(job)
  const next = applyEvent(state, end, tx.now)
  if (next === undefined || !writeState(tx, job, next, output))
    return isRepeatedEnd(state, end) ? "Written" : "LeaseLost"
  if (record !== undefined)
    runIn(tx, (common) => keepAttempts(common, [{ jobSeq: job.seq, number: job.attempts, record }]))
  if (wait !== undefined) keepWait(tx, job.seq, job.attempts, wait)
  if (next.claimableAt !== null) mayBeClaimableAt(tx, job.laneId, next.claimableAt)
  return "Written"
}

/** Fails jobs permanently, with an error code. */
export const failJobs = (tx: Transaction, items: ReadonlyArray<Failure>): ReadonlyArray<FencedOutcome> =>
  items.map((item) => {
    const { errorCode, message, token } = item
    const output = message === undefined ? undefined : failedOutput(message)
    return endClaim(tx, item, () => ({ event: "failed", token, errorCode }), output)
  })

/** Parks a job, unless its event has come. */
const parkJob = (tx: Transaction, item: Deferral, park: Parking): FencedOutcome => {
  const job = tx.get(stateById, { id: item.jobId })
  if (job === undefined) return "LeaseLost"
  const event = eventState(tx, job, park)
  const ref = { jobId: item.jobId, token: item.token }
  const isHeld = holdsClaim(stateOf(job), item.token)
  const outcome = endClaim(tx, ref, () => deferralEvent(item, tx.now, () => event.hasCome))
  if (isHeld && outcome === "Written") {
    const { reason, subject } = park
    const { unfinished } = event
    runIn(tx, (common) => keepParked(common, [{ jobSeq: job.seq, token: item.token + 1, reason, subject, unfinished }]))
  }
  return outcome
}

/** Schedules a retry, or parks. A provider's Retry-After may have fractions of a millisecond; store time has none. */
export const deferJobs = (tx: Transaction, items: ReadonlyArray<Deferral>): ReadonlyArray<FencedOutcome> =>
  items.map((item) => {
    const { park } = item
    return park === undefined
      ? endClaim(tx, item, () => deferralEvent(item, tx.now, () => false))
      : parkJob(tx, item, park)
  })

/** Returns jobs to the head of their queue. */
export const releaseJobs = (tx: Transaction, items: ReadonlyArray<ClaimRef>): ReadonlyArray<FencedOutcome> =>
  items.map((item) => endClaim(tx, item, (job) => ({ event: "released", token: item.token, createdAt: job.createdAt })))

/** Checks the fence of an attempt without writing anything. */
export const checkClaims = (tx: Transaction, items: ReadonlyArray<ClaimRef>): ReadonlyArray<boolean> =>
  items.map(({ jobId, token }) => {
    const job = tx.get(stateById, { id: jobId })
    return job !== undefined && holdsClaim(stateOf(job), token)
  })

/** Cancels jobs regardless of owner. A worker that holds one loses its claim, because the token grows. */
export const cancelJobs = (tx: Transaction, jobIds: ReadonlyArray<JobId>): ReadonlyArray<CancelOutcome> =>
  jobIds.map((id) => {
    const job = tx.get(stateById, { id })
    if (job === undefined) return "NotFound"
    const failed = applyEvent(stateOf(job), { event: "canceled" }, tx.now)
    if (failed === undefined) return "AlreadyFinished"
    if (!writeState(tx, job, failed)) throw new TypeError(`${id} cannot be canceled`)
    return "Canceled"
  })

type Done = "id" | "token" | "output" | "warning_code" | "charge"
type Now = Given<{ readonly now: number }>

/**
 * Completes jobs in one statement, without reading them first, and returns which it completed. The fence is in the WHERE, and the time
 * under lease is added as `applyEvent` adds it: until now, but not beyond the end of the lease.
 */
const finish = (items: RawBuilder<Row<"jobs", Done>>, { now }: Now) =>
  query
    .updateTable("jobs")
    .from(items.as("given"))
    .set((to) => ({
      status: "done",
      held: 0,
      token: sql<number>`${to.ref("jobs.token")} + 1`,
      claimable_at: null,
      deadline_at: null,
      phase_started_at: null,
      ran_ms: sql<number>`ran_ms + max(0, min(${now}, claimable_at) - phase_started_at)`,
      finished_at: now,
      output: to.ref("given.output"),
      warning_code: to.ref("given.warning_code"),
    }))
    .whereRef("jobs.id", "=", "given.id")
    .where("jobs.status", "=", "processing")
    .where("jobs.held", "=", 1)
    .whereRef("jobs.token", "=", "given.token")
    .returning(["jobs.id", "jobs.seq"])

const columns: ReadonlyArray<Done> = ["id", "token", "output", "warning_code", "charge"]

/** A CHECK rejects this for a live job. */
export const finishFree = listStatement("jobs", columns, (items, given: Now) => finish(items, given))

/** A trigger writes the charges to the ledger. A CHECK rejects this for a sandbox job. */
export const finishCharged = listStatement("jobs", columns, (items, given: Now) =>
  finish(items, given).set((to) => ({ charge: to.ref("given.charge") })),
)

const insertFile = statement(
  (given: Given<Values<"files", "id" | "job_seq" | "name" | "blob_key" | "media_type" | "bytes" | "sha256">>) =>
    query
      .insertInto("files")
      .values(assign(given, "id", "job_seq", "name", "blob_key", "media_type", "bytes", "sha256")),
)

/** Of two completions of a job, the second is judged by what the first wrote. */
export const completeJobs = (tx: Transaction, items: ReadonlyArray<Completion>): ReadonlyArray<FencedOutcome> => {
  const isDistinct = new Set(items.map(({ jobId }) => jobId)).size === items.length
  return isDistinct ? completeDistinct(tx, items) : items.flatMap((item) => completeDistinct(tx, [item]))
}

const completeDistinct = (tx: Transaction, items: ReadonlyArray<Completion>): ReadonlyArray<FencedOutcome> => {
  const done = items.map(({ charge, jobId: id, output, token, warningCode }) => ({
    id,
    token,
    output: JSON.stringify(output),
    warningCode,
    charge: charge === null ? null : JSON.stringify(withinReservation(charge, reservationOf(tx, id))),
  }))
  const { now } = tx
  const free = done.filter(({ charge }) => charge === null)
  const charged = done.filter(({ charge }) => charge !== null)
  const rows = [
    ...tx.runListReturning(finishFree, free, { now }),
    ...tx.runListReturning(finishCharged, charged, { now }),
  ]
  const written = new Map(rows.map(({ id, seq }) => [id, seq]))
  const outcomes = items.map((item) => {
    const seq = written.get(item.jobId)
    if (seq === undefined) return repeatedOrLost(tx, item)
    for (const { blobKey, bytes, id, mediaType, name, sha256 } of item.files)
      tx.run(insertFile, { id, jobSeq: seq, name, blobKey, mediaType, bytes, sha256 })
    return "Written"
  })
  if (items.some(({ followUps }) => followUps !== undefined))
    createFollowUps(
      tx,
      items.flatMap(({ followUps = [], jobId }) => (written.has(jobId) ? followUps : [])),
    )
  return outcomes
}

/** Creates jobs with the completions of others, in their order. A job that would be refused is created as failed. */
const createFollowUps = (tx: Transaction, items: ReadonlyArray<NewJob>): void => {
  for (const item of items) {
    const [outcome] = createJobs(tx, [item])
    const refused = outcome && refusedJob(item, outcome)
    if (refused === undefined) continue
    createJobs(tx, [refused.item])
    const job = tx.get(stateById, { id: item.id })
    const failed = job && applyEvent(stateOf(job), { event: "refused" }, tx.now)
    if (job === undefined || failed === undefined || !writeState(tx, job, failed, refused.output))
      throw new TypeError(`${item.id} cannot be created as failed`)
  }
}

/** A repeat writes nothing: the first call wrote everything, and its data may have been erased since. */
const repeatedOrLost = (tx: Transaction, { jobId, token }: Completion): FencedOutcome => {
  const job = tx.get(stateById, { id: jobId })
  return job !== undefined && isRepeatedEnd(stateOf(job), { event: "completed", token }) ? "Written" : "LeaseLost"
}

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
