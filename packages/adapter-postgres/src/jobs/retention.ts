import { type AliasableExpression, type Compilable, type RawBuilder, sql } from "kysely"
import type { JobId, RetainedData, UploadId, WarningCode } from "@kiln/core/domain"
import { blobPrefixesOf, strongerWarning } from "@kiln/core/rules"
import type { EraseOutcome, Erasure, PruneResult, RetentionAge, RetentionPublication } from "@kiln/core/ports"
import { purgesStillDue, recordPurges } from "@kiln/sql-store"
import {
  batchStatement,
  type BatchTable,
  excluded,
  fieldsOf,
  type Given,
  integer,
  type ItemOf,
  nullable,
  plenty,
  query,
  statement,
  storeTime,
  text,
  whole,
  wholeAge,
} from "../Statement.ts"
import type { Session, Transaction } from "../connection/Session.ts"
import { runOn } from "../transactionsOf.ts"
import { isOfOwner, owned, retainedPart } from "./jobRow.ts"

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
  const ages = Object.entries(byKind).map(([kind, ms]) => [kind, wholeAge(ms)])
  return { othersMs: wholeAge(others), agesByKind: JSON.stringify(Object.fromEntries(ages)) }
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
const dueJobs = (
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

/**
 * The columns of a finished job that erasing needs. Both rows of the job must be locked when they are read: a retry takes the
 * upload from the one, an erasure changes the other.
 */
const retentionColumns = [
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
const uploadsOf = (
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

const findOwned = batchStatement(owned, (item) => ownJobs(item).select("item.ord"))

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
const lockFinishedJobs = batchStatement({ seq: integer() }, (item) =>
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
  const jobs = await tx.batch(lockFinishedJobs, found)
  await tx.runBatch(removeJobs, jobs)
  await tx.runBatch(removeUploads, uploadsOf(jobs))
  const prefixes = jobs.filter((job) => job.retained === "kept").flatMap(blobPrefixesOf)
  return { count: jobs.length, purges: await runOn(tx, (common) => recordPurges(common, prefixes)) }
}

type Publisher = { publisher: string; program: string; ttlMs: number; graceMs: number }

/** One statement, as for workers: what another process is writing is left to it, and a repetition changes nothing. */
const publish = batchStatement(
  { kind: text(), dataMs: nullable(integer()), jobsMs: nullable(integer()) },
  (item, given: Given<Publisher>) =>
    query
      .with("forgotten", (forget) =>
        forget.deleteFrom("retention_rules").where(sql<boolean>`(kind, publisher) in (
            select old.kind, old.publisher from "kiln".retention_rules as old
            left join ${item} on item.kind = old.kind
            where case
              when old.publisher = ${given.publisher} then item.kind is null
              else item.kind is not null and old.live_until <=
                ${storeTime} - case when old.program = ${given.program} then 0 else ${whole(given.graceMs)} end
            end
            for update of old skip locked)`),
      )
      .insertInto("retention_rules")
      .columns(["kind", "publisher", "program", "data_ms", "jobs_ms", "live_until"])
      .expression(
        query
          .selectFrom(item)
          .select([
            "item.kind",
            sql<string>`${given.publisher}::text`.as("publisher"),
            sql<string>`${given.program}::text`.as("program"),
            "item.dataMs",
            "item.jobsMs",
            sql<number>`${storeTime} + ${whole(given.ttlMs)}`.as("live_until"),
          ])
          .orderBy("item.kind"),
      )
      .onConflict((conflict) =>
        conflict.columns(["kind", "publisher"]).doUpdateSet(excluded("program", "data_ms", "jobs_ms", "live_until")),
      ),
)

export const publishRetention = async (
  session: Session,
  { graceMs, program, publisher, rules, ttlMs }: RetentionPublication,
): Promise<void> => {
  const items = rules.map(({ dataMs, jobsMs, kind }) => ({ kind, dataMs, jobsMs }))
  await session.runBatch(publish, items, {
    publisher,
    program,
    ttlMs: Math.ceil(ttlMs),
    graceMs: Math.ceil(graceMs),
  })
}
