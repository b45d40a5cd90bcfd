import { type RawBuilder, sql } from "kysely"
import { applyEvent, isRepeatedEnd, refusedJob, withinReservation } from "@kiln/core/domain"
import type { Completion, FencedOutcome, NewJob } from "@kiln/core/ports"
import { assign, type Row, type Values } from "../columns.ts"
import { reservationOf } from "../spending.ts"
import { type Given, listStatement, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"
import { createJobs } from "./createJobs.ts"
import { stateById, stateOf } from "./JobRow.ts"
import { writeState } from "./writeState.ts"

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
  const parts = [
    ...finishFree.over(done.filter(({ charge }) => charge === null)),
    ...finishCharged.over(done.filter(({ charge }) => charge !== null)),
  ]
  const written = new Map(
    parts.flatMap((part) => tx.runReturning(part, { now: tx.now })).map(({ id, seq }) => [id, seq]),
  )
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
