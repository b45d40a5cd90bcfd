import { type ExpressionBuilder, type RawBuilder, sql } from "kysely"
import {
  type JobMode,
  type KeptBytes,
  type ProjectId,
  type RetainedData,
  uploadBlobPrefix,
  type UploadId,
} from "@kiln/core/domain"
import { uploadOrphanReason } from "@kiln/core/rules"
import {
  type DueRetention,
  type PublishedRule,
  type Orphan,
  type PruneResult,
  retentionAgeOf,
  type RetentionPeriods,
} from "@kiln/core/ports"
import {
  batchStatement,
  type Given,
  plenty,
  type Program,
  query,
  type Sql,
  statement,
  storeTime,
  wholeAge,
} from "./Sql.ts"
import { recordPurges } from "./blobs.ts"
import { integer, select, type Tables, text } from "./columns.ts"

/**
 * Whether no job has consumed this upload. With an offset, Postgres looks into the index of `jobs.upload_id` for each upload, or the
 * planner may hash all jobs to answer for a few.
 */
export const isUnused = (where: ExpressionBuilder<Tables, "uploads">) =>
  where.not(
    where.exists(
      where.selectFrom("jobs").select("jobs.seq").whereRef("jobs.upload_id", "=", "uploads.id").limit(1).offset(0),
    ),
  )

/**
 * Uploads that no job took and that are due, oldest first: unused ones to erase, or erased ones to delete. The index contains none
 * that a job took; the condition checks it anyway. Uploads locked by a job or another sweep are skipped.
 */
const dueUploads = (erased: boolean) =>
  statement((given: Given<{ readonly dueBy: number; readonly limit: number }>) =>
    query
      .selectFrom("uploads")
      .innerJoin(plenty, (join) => join.onTrue())
      .select("id")
      .where("erased", "=", erased)
      .where("sweep_at", "<=", given.dueBy)
      .where(isUnused)
      .orderBy("sweep_at")
      .orderBy("seq")
      .limit(given.limit)
      .forUpdate("uploads")
      .skipLocked(),
  )

export const unusedUploads = dueUploads(false)
/** The record of an upload that a job took is deleted with the job's record. */
export const erasedUploads = dueUploads(true)

/** Checks again under the lock that no job took the upload. Its record then waits for `deleteUploads`, which goes by age. */
const eraseUnused = batchStatement({ id: text<UploadId>() }, (item) =>
  query
    .updateTable("uploads")
    .from(item)
    .set((set) => ({
      erased: true,
      blob_key: null,
      bytes: null,
      sha256: null,
      claimed_until: null,
      sweep_at: set.ref("uploads.created_at"),
    }))
    .whereRef("uploads.id", "=", "item.id")
    .where("uploads.erased", "=", false)
    .where(isUnused as never)
    .returning("uploads.id"),
)

/** Erases uploads that no job used in time. */
export function* expireUploads(tx: Sql, limit: number): Program<PruneResult> {
  const uploads = yield* tx.all(unusedUploads, { dueBy: yield* tx.now(), limit })
  const erased = new Set((yield* tx.batch(eraseUnused, uploads)).map(({ id }) => id))
  const prefixes = uploads.flatMap(({ id }) => (erased.has(id) ? [uploadBlobPrefix(id)] : []))
  return { count: uploads.length, purges: yield* recordPurges(tx, prefixes) }
}

const removeUploads = batchStatement({ id: text<UploadId>() }, (item) =>
  query.deleteFrom("uploads").where("id", "in", query.selectFrom(item).select("item.id")),
)

/** Deletes the records of uploads that were erased and are older than this. */
export function* deleteUploads(tx: Sql, olderThanMs: number, limit: number): Program<number> {
  const dueBy = (yield* tx.now()) - olderThanMs
  return yield* tx.runBatch(removeUploads, yield* tx.all(erasedUploads, { dueBy, limit }))
}

type NamingBlob = { readonly blobKey: string; readonly uploadId: UploadId; readonly token: number }

const transferStates = batchStatement({ blobKey: text(), uploadId: text<UploadId>(), token: integer() }, (item) =>
  query
    .selectFrom("uploads")
    .innerJoin(item, (join) => join.onRef("item.uploadId", "=", "uploads.id"))
    .select(select("uploads", "erased", "token", "claimed_until", "blob_key"))
    .select("item.blobKey as itemKey"),
)

/** The rule is the domain's: `uploadOrphanReason`. */
export function* findUploadOrphans(tx: Sql, blobs: ReadonlyArray<NamingBlob>): Program<ReadonlyArray<Orphan>> {
  const rows = yield* tx.batch(transferStates, blobs)
  const uploads = new Map(
    rows.map(({ blobKey, claimedUntil, erased, itemKey, token }) => [
      itemKey,
      { erased: Boolean(erased), token, inTransfer: claimedUntil !== null, blobKey },
    ]),
  )
  return blobs.flatMap(({ blobKey, token }) => {
    const reason = uploadOrphanReason(uploads.get(blobKey), { blobKey, token })
    return reason === undefined ? [] : [{ blobKey, reason }]
  })
}

// The indexes of Postgres are on expressions, so that no plan of a statement about one upload reads them whole; those of SQLite are
// on columns. Each condition is there for both.

type Project = { readonly projectId: ProjectId; readonly now: number }

const sumOf = (column: string): RawBuilder<number> => sql<number>`cast(coalesce(sum(${sql.ref(column)}), 0) as bigint)`

/** The uploads of a project whose file no job has used. The index holds none that a job took; the subquery checks it anyway. */
export const storedUploads = statement((given: Given<Project>) =>
  query
    .selectFrom("uploads")
    .select((of) => [of.fn.countAll<number>().as("count"), sumOf("bytes").as("bytes")])
    .where("project_id", "=", given.projectId)
    .where("usable_until", ">", given.now)
    .where("blob_key", "is not", null)
    .where(sql<boolean>`coalesce(blob_key, '') <> ''`)
    .where("erased", "=", false)
    .where("sweep_at", "is not", null)
    .where(isUnused),
)

/** Uploads whose transfer may still begin or is in progress. */
export const announcedUploads = statement((given: Given<Project & { readonly maxTransfers: number }>) =>
  query
    .selectFrom("uploads")
    .select((of) => of.fn.countAll<number>().as("count"))
    .where("project_id", "=", given.projectId)
    .where("expires_at", ">", given.now)
    .where("usable_until", ">", given.now)
    .where("blob_key", "is", null)
    .where(sql<boolean>`coalesce(blob_key, '') = ''`)
    .where("erased", "=", false)
    .where((where) => where.or([where("transfers", "<", given.maxTransfers), where("claimed_until", ">", given.now)])),
)

/** Uploads whose transfer began before the URL expired and is still in progress. */
export const arrivingUploads = statement((given: Given<Project>) =>
  query
    .selectFrom("uploads")
    .select((of) => of.fn.countAll<number>().as("count"))
    .where("project_id", "=", given.projectId)
    .where("claimed_until", ">", given.now)
    .where(sql<boolean>`coalesce(claimed_until, 0) > 0`)
    .where("expires_at", "<=", given.now)
    .where("usable_until", ">", given.now),
)

/** Counts how many uploads of a project wait for jobs (`isWaiting`), and keeps others from adding to them until the transaction ends. */
export function* countWaiting(tx: Sql, projectId: ProjectId, maxTransfers: number): Program<number> {
  const now = yield* tx.now()
  const locked = tx.lock(`uploads ${projectId}`)
  const counts = [
    tx.get(storedUploads, { projectId, now }),
    tx.get(announcedUploads, { projectId, now, maxTransfers }),
    tx.get(arrivingUploads, { projectId, now }),
  ]
  yield* locked
  let waiting = 0
  for (const count of counts) waiting += (yield* count)?.count ?? 0
  return waiting
}

/** Sums the bytes of a project's files that wait for jobs, in the same way. Without a cap, 0, and no question to the database. */
export function* storedBytes(tx: Sql, projectId: ProjectId, capBytes = 0): Program<number> {
  if (capBytes <= 0) return 0
  const now = yield* tx.now()
  const locked = tx.lock(`uploads ${projectId}`)
  const stored = tx.get(storedUploads, { projectId, now })
  yield* locked
  return (yield* stored)?.bytes ?? 0
}

/** Postgres has several rows for a project. */
const keptOfProject = statement((given: Given<{ readonly projectId: ProjectId; readonly mode: JobMode }>) =>
  query
    .selectFrom("kept_bytes")
    .select([sumOf("uploads").as("uploads"), sumOf("files").as("files")])
    .where("project_id", "=", given.projectId)
    .where("mode", "=", given.mode),
)

export const nothingKept: KeptBytes = { uploads: 0, files: 0 }

/** Returns the bytes that a project keeps, as triggers count them. */
export function* keptBytes(tx: Sql, projectId: ProjectId, mode: JobMode): Program<KeptBytes> {
  return (yield* tx.get(keptOfProject, { projectId, mode })) ?? nothingKept
}

/** Inclusive. */
type By = { readonly by: number }

type ByKind = By & { readonly kind: string }

/** Where finished jobs are, and which of them a sweep may take. */
export interface FinishedJobs {
  readonly table: "jobs" | "results"
  /** The number of the job, a column of that table. */
  readonly seq: "seq" | "job_seq"
  readonly retained: RawBuilder<RetainedData>
  /** A condition about a row of the table. */
  readonly isNotNeeded: RawBuilder<boolean> | ((where: ExpressionBuilder<Tables, "jobs">) => unknown)
}

const total = (column: "files.bytes" | "uploads.bytes") =>
  sql<number>`cast(coalesce(sum(${sql.ref(column)}), 0) as bigint)`.as("bytes")

const sweptUploads = (erased: boolean) =>
  statement((given: Given<By>) =>
    query
      .selectFrom("uploads")
      .select((of) => [of.fn.countAll<number>().as("count"), total("uploads.bytes")])
      .where("erased", "=", erased)
      .where("sweep_at", "<=", given.by)
      .where(isUnused),
  )

const countUnused = sweptUploads(false)
const countErased = sweptUploads(true)

/** Returns what reads the due records by the conditions of `expireData`, `deleteJobs`, `expireUploads` and `deleteUploads`. */
export const dueRetention = ({ isNotNeeded, retained, seq, table }: FinishedJobs) => {
  // Only one of the databases has results.
  const from = query.selectFrom(table as "jobs")
  const jobSeq = sql.ref<number>(`${table}.${seq}`)
  const finished = (given: Given<ByKind>, value: RetainedData) =>
    from
      .where(retained, "=", value)
      .where(sql.ref<string>(`${table}.kind`), "=", given.kind)
      .where(sql.ref<number>(`${table}.finished_at`), "<=", given.by)
      .where(isNotNeeded as never)
  const countFinished = (value: RetainedData) =>
    statement((given: Given<ByKind>) => finished(given, value).select((of) => of.fn.countAll<number>().as("count")))
  const counts = { kept: countFinished("kept"), expired: countFinished("expired"), deleted: countFinished("deleted") }
  const bytesOfFiles = statement((given: Given<ByKind>) =>
    finished(given, "kept")
      .innerJoin("files", (join) => join.on("files.job_seq", "=", jobSeq))
      .select(total("files.bytes")),
  )
  const bytesOfUsedUploads = statement((given: Given<ByKind>) => {
    const kept = finished(given, "kept")
    const jobs = table === "jobs" ? kept : kept.innerJoin("jobs", (join) => join.on("jobs.seq", "=", jobSeq))
    return jobs.innerJoin("uploads", "uploads.id", "jobs.upload_id").select(total("uploads.bytes"))
  })

  /** `kinds`: those that have finished jobs, by their data. */
  return function* (
    tx: Sql,
    { data, jobs, uploads }: RetentionPeriods,
    kinds: Readonly<Record<RetainedData, ReadonlyArray<string>>>,
  ): Program<DueRetention> {
    const now = yield* tx.now()
    const unused = yield* tx.get(countUnused, { by: now })
    const erased = yield* tx.get(countErased, { by: now - wholeAge(uploads) })
    const due = {
      expiredData: 0,
      deletedJobs: 0,
      expiredUploads: unused?.count ?? 0,
      deletedUploads: erased?.count ?? 0,
      bytes: unused?.bytes ?? 0,
    }
    for (const value of ["kept", "expired", "deleted"] as const)
      for (const kind of kinds[value]) {
        const dataBy = now - wholeAge(retentionAgeOf(data, kind))
        const recordsBy = now - wholeAge(retentionAgeOf(jobs, kind))
        due.deletedJobs += (yield* tx.get(counts[value], { kind, by: recordsBy }))?.count ?? 0
        if (value !== "kept") continue
        const filesBy = { kind, by: Math.max(dataBy, recordsBy) }
        due.expiredData += (yield* tx.get(counts.kept, { kind, by: dataBy }))?.count ?? 0
        due.bytes += (yield* tx.get(bytesOfFiles, filesBy))?.bytes ?? 0
        due.bytes += (yield* tx.get(bytesOfUsedUploads, filesBy))?.bytes ?? 0
      }
    return due
  }
}

// Published rules

const allRules = statement(() =>
  query
    .selectFrom("retention_rules")
    .select(select("retention_rules", "kind", "data_ms", "jobs_ms", "publisher", "program"))
    .select(
      sql<number | null>`case when live_until <= ${storeTime} then ${storeTime} - live_until end`.as("stoppedForMs"),
    )
    .orderBy("kind")
    .orderBy("publisher"),
)

export function* readRetention(tx: Sql): Program<ReadonlyArray<PublishedRule>> {
  return yield* tx.all(allRules, {})
}
