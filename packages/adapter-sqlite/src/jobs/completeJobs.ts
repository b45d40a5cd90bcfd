import { sql } from "kysely"
import { isRepeatedEnd, type JobId } from "@kiln/core/domain"
import type { Completion, FencedOutcome } from "@kiln/core/ports"
import { assign, type Values } from "../columns.ts"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"
import { stateById, stateOf } from "./JobRow.ts"

type Done = Values<"jobs", "id" | "token" | "output" | "warning_code"> & { readonly now: number }

/**
 * Completes a job in one statement, without reading it first. The fence is in the WHERE, and the time under lease is added as
 * `applyEvent` adds it: until now, but not beyond the end of the lease.
 */
const finish = (given: Given<Done>) =>
  query
    .updateTable("jobs")
    .set({
      status: "done",
      held: 0,
      token: sql<number>`token + 1`,
      claimable_at: null,
      deadline_at: null,
      phase_started_at: null,
      ran_ms: sql<number>`ran_ms + max(0, min(${given.now}, claimable_at) - phase_started_at)`,
      finished_at: given.now,
      ...assign(given, "output", "warning_code"),
    })
    .where("id", "=", given.id)
    .where("status", "=", "processing")
    .where("held", "=", 1)
    .where("token", "=", given.token)

/** A CHECK rejects this for a live job. */
export const finishFree = statement((given: Given<Done>) => finish(given))

/** A trigger writes the charge to the ledger. A CHECK rejects this for a sandbox job. */
export const finishCharged = statement((given: Given<Done & { readonly charge: string }>) =>
  finish(given).set({ charge: given.charge }),
)

const seqById = statement((given: Given<Values<"jobs", "id">>) =>
  query.selectFrom("jobs").select("seq").where("id", "=", given.id),
)

const insertFile = statement(
  (given: Given<Values<"files", "id" | "job_seq" | "name" | "blob_key" | "media_type" | "bytes" | "sha256">>) =>
    query
      .insertInto("files")
      .values(assign(given, "id", "job_seq", "name", "blob_key", "media_type", "bytes", "sha256")),
)

export const completeJobs = (tx: Transaction, items: ReadonlyArray<Completion>): ReadonlyArray<FencedOutcome> =>
  items.map((item) => completeJob(tx, item))

const completeJob = (tx: Transaction, completion: Completion): FencedOutcome => {
  const { charge, files, jobId: id, token, warningCode } = completion
  const done = { id, token, now: tx.now, output: JSON.stringify(completion.output), warningCode }
  const written =
    charge === null ? tx.run(finishFree, done) : tx.run(finishCharged, { ...done, charge: JSON.stringify(charge) })
  if (written === 0) return repeatedOrLost(tx, completion)
  if (files.length > 0) insertFiles(tx, id, files)
  return "Written"
}

const insertFiles = (tx: Transaction, jobId: JobId, files: Completion["files"]): void => {
  const job = tx.get(seqById, { id: jobId })
  if (job === undefined) throw new TypeError(`the completed ${jobId} was not found`)
  for (const { blobKey, bytes, id, mediaType, name, sha256 } of files)
    tx.run(insertFile, { id, jobSeq: job.seq, name, blobKey, mediaType, bytes, sha256 })
}

/** A repeat writes nothing: the first call wrote everything, and its data may have been erased since. */
const repeatedOrLost = (tx: Transaction, { jobId, token }: Completion): FencedOutcome => {
  const job = tx.get(stateById, { id: jobId })
  return job !== undefined && isRepeatedEnd(stateOf(job), { event: "completed", token }) ? "Written" : "LeaseLost"
}
