import { type RawBuilder, sql } from "kysely"
import { blobPrefixesOf, type UploadId } from "@kiln/core/domain"
import type { PruneResult, RetentionAge } from "@kiln/core/ports"
import { recordPurges } from "@kiln/sql-store"
import type { Transaction } from "../connection/Session.ts"
import { runOn } from "../transactionsOf.ts"
import { batchStatement, type Given, integer, query, statement, storeTime, text, whole } from "../Statement.ts"
import { retentionColumns, uploadsOf } from "./eraseJobs.ts"
import { type Ages, agesFrom, dueJobs } from "./finishedKinds.ts"

/** Finished jobs, of each kind the oldest first, from three parts of the index: data kept, expired and deleted. */
const dueInAll = (given: Given<Ages>, now: RawBuilder<number>, limit: RawBuilder<number>) =>
  query
    .selectFrom((from) =>
      from
        .selectFrom(dueJobs(given, "kept", now, limit).as("kept"))
        .selectAll()
        .unionAll(query.selectFrom(dueJobs(given, "expired", now, limit).as("expired")).selectAll())
        .unionAll(query.selectFrom(dueJobs(given, "deleted", now, limit).as("deleted")).selectAll())
        .as("due"),
    )
    .select("due.seq")
    .limit(limit)

const finishedJobs = statement((given: Given<Ages & { now: number; limit: number }>) =>
  dueInAll(given, whole(given.now), given.limit),
)

/** Looks for one that is due in each of the three parts of the index. */
export const anyFinishedJob = statement((given: Given<Ages>) => dueInAll(given, storeTime, sql.lit(1)))

/** Locks the jobs that were found. Jobs locked by another sweep are skipped. */
const lockFinished = batchStatement({ seq: integer() }, (item) =>
  query
    .selectFrom("jobs")
    .innerJoin(item, (join) => join.onRef("item.seq", "=", "jobs.seq"))
    .innerJoin("results", "results.job_seq", "jobs.seq")
    .select(retentionColumns)
    .orderBy("item.ord")
    .forUpdate(["results", "jobs"])
    .skipLocked(),
)

/** Result, data and files are deleted with the row. Charges stay. */
const removeJobs = batchStatement({ seq: integer() }, (item) =>
  query.deleteFrom("jobs").using(item).whereRef("jobs.seq", "=", "item.seq"),
)

const removeUploads = batchStatement({ uploadId: text<UploadId>() }, (item) =>
  query.deleteFrom("uploads").using(item).whereRef("uploads.id", "=", "item.uploadId"),
)

export const deleteJobs = async (tx: Transaction, olderThanMs: RetentionAge, limit: number): Promise<PruneResult> => {
  const found = await tx.all(finishedJobs, { ...agesFrom(olderThanMs), now: tx.now, limit })
  const jobs = await tx.batch(lockFinished, found)
  await tx.runBatch(removeJobs, jobs)
  await tx.runBatch(removeUploads, uploadsOf(jobs))
  const prefixes = jobs.filter((job) => job.retained === "kept").flatMap(blobPrefixesOf)
  return { count: jobs.length, purges: await runOn(tx, (common) => recordPurges(common, prefixes)) }
}
