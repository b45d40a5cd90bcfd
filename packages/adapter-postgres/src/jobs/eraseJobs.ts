import { sql } from "kysely"
import {
  blobPrefixesOf,
  type JobId,
  type RetainedData,
  strongerWarning,
  type UploadId,
  type WarningCode,
} from "@kiln/core/domain"
import type { EraseOutcome, Erasure, PruneResult, RetentionAge } from "@kiln/core/ports"
import { purgesStillDue, recordPurges } from "@kiln/sql-store"
import { isOfOwner, owned } from "./jobRow.ts"
import { type Ages, agesFrom, dueJobs } from "./finishedKinds.ts"
import type { Transaction } from "../connection/Session.ts"
import { runOn } from "../transactionsOf.ts"
import {
  batchStatement,
  type BatchTable,
  fieldsOf,
  type Given,
  integer,
  type ItemOf,
  nullable,
  query,
  statement,
  storeTime,
  text,
  whole,
} from "../Statement.ts"

/**
 * The columns of a finished job that erasing needs. Both rows of the job must be locked when they are read: a retry takes the
 * upload from the one, an erasure changes the other.
 */
export const retentionColumns = [
  "jobs.seq",
  "jobs.id",
  "jobs.upload_id as uploadId",
  "results.retained",
  "results.warning_code as warningCode",
] as const

export interface RetentionRow {
  readonly seq: number
  readonly id: JobId
  readonly uploadId: UploadId | null
  readonly retained: RetainedData
  readonly warningCode: WarningCode | null
}

const eraseRequests = batchStatement({ seq: integer() }, (item) =>
  query.updateTable("jobs").from(item).set({ request: null }).whereRef("jobs.seq", "=", "item.seq"),
)

/**
 * Deletes the rows of jobs that may have several each. They are found one job at a time and deleted by their places, which do not change,
 * because these rows are never updated. Without statistics, the planner takes the rows of ten jobs for a twentieth of the table, and a join
 * would read all of it.
 */
const deleteRowsOf = (table: "files" | "attempts") =>
  batchStatement({ seq: integer() }, (item) =>
    query.deleteFrom(table).where(
      sql<boolean>`ctid = any (array(select own.place from ${item} cross join lateral (
        select ctid as place from "kiln".${sql.raw(table)} where job_seq = item.seq offset 0) as own))`,
    ),
  )

const deleteFiles = deleteRowsOf("files")

const deleteAttempts = deleteRowsOf("attempts")

const eraseUploads = batchStatement({ uploadId: text<UploadId>() }, (item) =>
  query
    .updateTable("uploads")
    .from(item)
    .set({ erased: true, blob_key: null, bytes: null, sha256: null, claimed_until: null, sweep_at: null })
    .whereRef("uploads.id", "=", "item.uploadId"),
)

/** Runs last, because a trigger refuses it while data is left. Only for jobs whose data is as it was read. */
const markErased = batchStatement(
  { seq: integer(), from: text<RetainedData>(), warningCode: nullable(text<WarningCode>()) },
  (item, given: Given<{ retained: RetainedData }>) =>
    query
      .updateTable("results")
      .from(item)
      .set({
        output: null,
        retained: given.retained,
        warning_code: fieldsOf(item).warningCode,
      })
      .whereRef("results.job_seq", "=", "item.seq")
      .whereRef("results.retained", "=", "item.from"),
)

/** The uploads of jobs, in the order of their ids, in which all transactions lock uploads. */
export const uploadsOf = (
  jobs: ReadonlyArray<{ readonly uploadId: UploadId | null }>,
): ReadonlyArray<{ readonly uploadId: UploadId }> =>
  jobs
    .flatMap(({ uploadId }) => (uploadId === null ? [] : [{ uploadId }]))
    .toSorted((a, b) => (a.uploadId < b.uploadId ? -1 : 1))

/** Deletes the retained data of finished jobs. Rows, codes, times and charges stay. The jobs were locked by this transaction. */
const eraseRetained = async (
  tx: Transaction,
  jobs: ReadonlyArray<RetentionRow>,
  retained: "deleted" | "expired",
): Promise<void> => {
  const added = retained === "deleted" ? "data_deleted" : "data_expired"
  await Promise.all([
    tx.runBatch(eraseRequests, jobs),
    tx.runBatch(deleteFiles, jobs),
    tx.runBatch(deleteAttempts, jobs),
    tx.runBatch(eraseUploads, uploadsOf(jobs)),
  ])
  const blanked = await tx.runBatch(
    markErased,
    jobs.map(({ retained: from, seq, warningCode }) => ({
      seq,
      from,
      warningCode: strongerWarning(warningCode ?? undefined, added) ?? null,
    })),
    { retained },
  )
  if (blanked !== jobs.length) throw new TypeError(`${jobs.length - blanked} jobs changed while they were erased`)
}

/** Selects jobs of their owners; jobs of others count as unknown. The id finds the row, see `jobsByOwner`. */
const ownJobs = (item: BatchTable<ItemOf<typeof owned>>) =>
  query.selectFrom("jobs").innerJoin(item, (join) => join.on(isOfOwner))

/** Finds jobs, finished or not. */
const findOwned = batchStatement(owned, (item) => ownJobs(item).select("item.ord"))

/** Locks finished jobs. */
const lockFinished = batchStatement(owned, (item) =>
  ownJobs(item)
    .innerJoin("results", "results.job_seq", "jobs.seq")
    .select(retentionColumns)
    .select("item.ord")
    .orderBy("jobs.id")
    .forNoKeyUpdate(["results", "jobs"]),
)

/**
 * Erases data on request. Data that had expired by age is `AlreadyErased`, because nothing was left to delete; its warning
 * becomes `data_deleted`, because the owner asked for that.
 */
export const eraseJobs = async (
  tx: Transaction,
  items: ReadonlyArray<Erasure>,
): Promise<ReadonlyArray<EraseOutcome>> => {
  const asked = items.map(({ jobId: id, principal: { keyId, mode, projectId } }) => ({ id, projectId, keyId, mode }))
  // Of the two, the locks come first: a job that has no result by then is unfinished if it is there afterwards.
  const [rows, known] = await Promise.all([tx.batch(lockFinished, asked), tx.batch(findOwned, asked)])
  const found = new Map(rows.map((job) => [job.ord, job]))
  const unfinished = new Set(known.map(({ ord }) => ord))
  const finished = new Map(rows.map((job) => [job.id, job]))
  const present = [...finished.values()].filter(({ retained }) => retained !== "deleted")
  await eraseRetained(tx, present, "deleted")
  const recorded = present.filter(({ retained }) => retained === "kept").flatMap(blobPrefixesOf)
  const stillDue = await runOn(tx, function* (common) {
    yield* recordPurges(common, recorded)
    return yield* purgesStillDue(common, [...finished.values()].flatMap(blobPrefixesOf))
  })
  const due = new Set(stillDue.map(({ blobPrefix }) => blobPrefix))
  const erasedHere = new Set<JobId>()
  return items.map((_, index): EraseOutcome => {
    const job = found.get(index + 1)
    if (job === undefined) return { _tag: unfinished.has(index + 1) ? "Unfinished" : "NotFound" }
    const purges = blobPrefixesOf(job).flatMap((blobPrefix) => (due.has(blobPrefix) ? [{ blobPrefix }] : []))
    const erased = job.retained === "kept" && !erasedHere.has(job.id)
    erasedHere.add(job.id)
    return { _tag: erased ? "Erased" : "AlreadyErased", purges }
  })
}

/**
 * Finished jobs with data, of each kind the oldest first. Jobs without data are in another part of the index. Jobs locked by another
 * sweep are skipped.
 */
const keptJobs = statement((given: Given<Ages & { now: number; limit: number }>) =>
  query
    .selectFrom(dueJobs(given, "kept", whole(given.now), given.limit).as("due"))
    .innerJoin("results", "results.job_seq", "due.seq")
    .innerJoin("jobs", "jobs.seq", "due.seq")
    .select(retentionColumns)
    // Another sweep may have erased it since it was found. Not the index's expression, which would find all kept jobs here.
    .where("results.retained", "=", "kept")
    .forNoKeyUpdate(["results", "jobs"])
    .skipLocked(),
)

/** Looks for one that is due, in the same index. */
export const anyKeptJob = statement((given: Given<Ages>) => dueJobs(given, "kept", storeTime, sql.lit(1)))

export const expireData = async (tx: Transaction, olderThanMs: RetentionAge, limit: number): Promise<PruneResult> => {
  const jobs = await tx.all(keptJobs, { ...agesFrom(olderThanMs), now: tx.now, limit })
  await eraseRetained(tx, jobs, "expired")
  const prefixes = jobs.flatMap(blobPrefixesOf)
  return { count: jobs.length, purges: await runOn(tx, (common) => recordPurges(common, prefixes)) }
}
