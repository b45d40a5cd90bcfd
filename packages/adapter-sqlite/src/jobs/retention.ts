import { type ExpressionBuilder, sql } from "kysely"
import { isFinished, type RetainedData, type UploadId } from "@kiln/core/domain"
import { blobPrefixesOf, strongerWarning } from "@kiln/core/rules"
import {
  type EraseOutcome,
  type Erasure,
  type PruneResult,
  type RetentionAge,
  retentionAgeOf,
  type RetentionPublication,
} from "@kiln/core/ports"
import { purgesStillDue, recordPurges } from "@kiln/sql-store"
import { type Given, query, type RowOf, statement } from "../Statement.ts"
import { storeTime, type Transaction } from "../Transaction.ts"
import { assign, select, type Tables, type Values } from "../columns.ts"
import { runIn } from "../transactionsOf.ts"

/** The first kind after another that has finished jobs which retain this. */
export const nextFinishedKind = statement((given: Given<{ readonly retained: RetainedData; readonly after: string }>) =>
  query
    .selectFrom("jobs")
    .select("kind")
    .where("retained", "=", given.retained)
    .where("kind", ">", given.after)
    .where("finished_at", "is not", null)
    .orderBy("kind")
    .limit(1),
)

/** Lists the kinds of finished jobs that retain this, with one search of the index for each kind, however many jobs there are. */
export const finishedKinds = (tx: Transaction, retained: RetainedData): ReadonlyArray<string> => {
  const kinds: Array<string> = []
  // No kind has an empty name.
  for (let after = ""; ;) {
    const next = tx.get(nextFinishedKind, { retained, after })
    if (next === undefined) return kinds
    kinds.push(next.kind)
    after = next.kind
  }
}

const label = sql.ref("job_labels.label")

/**
 * Whether no unfinished job is the parent of this one, and none is to start after it. A parent is found by the label that its children
 * have, and a job that starts after this one by a label of its own. Most jobs have none of them, and cost two searches of an index.
 */
export const isNotNeeded = (where: ExpressionBuilder<Tables, "jobs">) =>
  where.and([isNotPrerequisite(where), isNotChild(where)])

const isNotPrerequisite = (where: ExpressionBuilder<Tables, "jobs">) =>
  where.not(
    where.exists(
      where
        .selectFrom("job_labels")
        .innerJoin("jobs as dependent", "dependent.seq", "job_labels.job_seq")
        .select("dependent.seq")
        .where("job_labels.label", "=", sql<string>`'~' || ${sql.ref("jobs.id")}`)
        .where("dependent.finished_at", "is", null),
    ),
  )

const isNotChild = (where: ExpressionBuilder<Tables, "jobs">) =>
  where.not(
    where.exists(
      where
        .selectFrom("job_labels")
        .innerJoin("jobs as parent", (join) => join.on("parent.id", "=", sql<`job_${string}`>`substr(${label}, 2)`))
        .select("parent.seq")
        .whereRef("job_labels.job_seq", "=", "jobs.seq")
        .where(sql<string>`substr(${label}, 1, 1)`, "=", "^")
        .where("parent.finished_at", "is", null),
    ),
  )

/** The facts about a job that erasing and deleting need. */
const retentionColumns = select("jobs", "seq", "id", "upload_id", "status", "error_code", "retained", "warning_code")

/** The job of another owner counts as unknown. */
export const ownJob = statement((given: Given<Values<"jobs", "id" | "project_id" | "key_id" | "mode">>) =>
  query
    .selectFrom("jobs")
    .select(retentionColumns)
    .where("id", "=", given.id)
    .where("project_id", "=", given.projectId)
    .where("key_id", "=", given.keyId)
    .where("mode", "=", given.mode),
)

type RetentionRow = RowOf<typeof ownJob>

const deleteData = statement((given: Given<{ readonly seq: number }>) =>
  query.deleteFrom("job_data").where("job_seq", "=", given.seq),
)

const deleteFiles = statement((given: Given<{ readonly seq: number }>) =>
  query.deleteFrom("files").where("job_seq", "=", given.seq),
)

const deleteAttempts = statement((given: Given<{ readonly seq: number }>) =>
  query.deleteFrom("attempts").where("job_seq", "=", given.seq),
)

const eraseUpload = statement((given: Given<{ readonly uploadId: UploadId }>) =>
  query
    .updateTable("uploads")
    .set({ erased: 1, blob_key: null, bytes: null, sha256: null, claimed_until: null, sweep_at: null })
    .where("id", "=", given.uploadId),
)

/** Runs last, because a trigger rejects it while data is left. Only for a finished job, and only as it was read. */
const eraseRow = statement(
  (given: Given<Values<"jobs", "seq" | "retained" | "warning_code"> & { readonly from: RetainedData }>) =>
    query
      .updateTable("jobs")
      .set({ output: null, request: null, ...assign(given, "retained", "warning_code") })
      .where("seq", "=", given.seq)
      .where("retained", "=", given.from)
      .where("finished_at", "is not", null),
)

/** Deletes what a finished job retains. Its row stays, with its codes, times and charge. */
const eraseJob = (tx: Transaction, job: RetentionRow, retained: "deleted" | "expired"): void => {
  tx.run(deleteData, { seq: job.seq })
  tx.run(deleteFiles, { seq: job.seq })
  tx.run(deleteAttempts, { seq: job.seq })
  if (job.uploadId !== null) tx.run(eraseUpload, { uploadId: job.uploadId })
  const warning = strongerWarning(
    job.warningCode ?? undefined,
    retained === "deleted" ? "data_deleted" : "data_expired",
  )
  if (tx.run(eraseRow, { seq: job.seq, from: job.retained, retained, warningCode: warning ?? null }) !== 1)
    throw new TypeError(`${job.id} is not finished`)
  tx.noteErasure()
}

/**
 * The first request to erase data that had already expired is `AlreadyErased`, since nothing is left to delete. The job then
 * reports `data_deleted`, which is what its owner asked for.
 */
export const eraseJobs = (tx: Transaction, items: ReadonlyArray<Erasure>): ReadonlyArray<EraseOutcome> =>
  items.map(({ jobId: id, principal: { keyId, mode, projectId } }) => {
    const job = tx.get(ownJob, { id, projectId, keyId, mode })
    if (job === undefined) return { _tag: "NotFound" }
    if (!isFinished(job)) return { _tag: "Unfinished" }
    const prefixes = blobPrefixesOf(job)
    if (job.retained !== "deleted") eraseJob(tx, job, "deleted")
    return job.retained === "kept"
      ? { _tag: "Erased", purges: runIn(tx, (common) => recordPurges(common, prefixes)) }
      : { _tag: "AlreadyErased", purges: runIn(tx, (common) => purgesStillDue(common, prefixes)) }
  })

type Due = { readonly kind: string; readonly finishedBy: number; readonly limit: number }

/** Jobs of a kind, longest finished first. Jobs without data are in another range of the index. */
export const keptJobs = statement((given: Given<Due>) =>
  query
    .selectFrom("jobs")
    .select(retentionColumns)
    .where("retained", "=", "kept")
    .where("kind", "=", given.kind)
    .where("finished_at", "<=", given.finishedBy)
    .where(isNotNeeded)
    .orderBy("finished_at")
    .orderBy("seq")
    .limit(given.limit),
)

export const expireData = (tx: Transaction, olderThanMs: RetentionAge, limit: number): PruneResult => {
  const jobs: Array<RetentionRow> = []
  for (const kind of finishedKinds(tx, "kept")) {
    const finishedBy = tx.now - retentionAgeOf(olderThanMs, kind)
    jobs.push(...tx.all(keptJobs, { kind, finishedBy, limit: limit - jobs.length }))
  }
  for (const job of jobs) eraseJob(tx, job, "expired")
  return { count: jobs.length, purges: runIn(tx, (common) => recordPurges(common, jobs.flatMap(blobPrefixesOf))) }
}

const finishedJobsThat = (given: Given<Due>, retained: RetainedData) =>
  query
    .selectFrom("jobs")
    .select(retentionColumns)
    .select("jobs.finished_at as finishedAt")
    .where("retained", "=", retained)
    .where("kind", "=", given.kind)
    .where("finished_at", "<=", given.finishedBy)
    .where(isNotNeeded)

/** Jobs of a kind, merged from three ranges of one index: longest finished first, whether or not their data is kept. */
export const finishedJobs = statement((given: Given<Due>) =>
  finishedJobsThat(given, "kept")
    .unionAll(finishedJobsThat(given, "expired"))
    .unionAll(finishedJobsThat(given, "deleted"))
    .orderBy("finishedAt")
    .orderBy("seq")
    .limit(given.limit),
)

/** Deletes the job's data and files as well. Charges do not refer to jobs, and stay. */
const deleteJob = statement((given: Given<{ readonly seq: number }>) =>
  query.deleteFrom("jobs").where("seq", "=", given.seq),
)

const deleteUpload = statement((given: Given<{ readonly uploadId: UploadId }>) =>
  query.deleteFrom("uploads").where("id", "=", given.uploadId),
)

const parts = ["kept", "expired", "deleted"] as const

export const deleteJobs = (tx: Transaction, olderThanMs: RetentionAge, limit: number): PruneResult => {
  const jobs: Array<RowOf<typeof finishedJobs>> = []
  for (const kind of new Set(parts.flatMap((retained) => finishedKinds(tx, retained)))) {
    const finishedBy = tx.now - retentionAgeOf(olderThanMs, kind)
    jobs.push(...tx.all(finishedJobs, { kind, finishedBy, limit: limit - jobs.length }))
  }
  for (const { seq, uploadId } of jobs) {
    tx.run(deleteJob, { seq })
    if (uploadId !== null) tx.run(deleteUpload, { uploadId })
  }
  if (jobs.length > 0) {
    // The newest job, whose time counts as stored, may be among them.
    tx.run(storeTime, { latest: tx.now })
    tx.noteErasure()
  }
  const prefixes = jobs.filter((job) => job.retained === "kept").flatMap(blobPrefixesOf)
  return { count: jobs.length, purges: runIn(tx, (common) => recordPurges(common, prefixes)) }
}

const forgetOwn = statement((given: Given<Values<"retention_rules", "publisher">>) =>
  query.deleteFrom("retention_rules").where("publisher", "=", given.publisher),
)

type Replaced = Values<"retention_rules", "kind" | "program"> & { readonly now: number; readonly longAgo: number }

const forgetStopped = statement((given: Given<Replaced>) =>
  query
    .deleteFrom("retention_rules")
    .where("kind", "=", given.kind)
    .where((where) =>
      where.or([
        where.and([where("program", "=", given.program), where("live_until", "<=", given.now)]),
        where("live_until", "<=", given.longAgo),
      ]),
    ),
)

type Rule = Values<"retention_rules", "kind" | "publisher" | "program" | "data_ms" | "jobs_ms" | "live_until">

const insertRule = statement((given: Given<Rule>) =>
  query
    .insertInto("retention_rules")
    .values(assign(given, "kind", "publisher", "program", "data_ms", "jobs_ms", "live_until")),
)

export const publishRetention = (
  tx: Transaction,
  { graceMs, program, publisher, rules, ttlMs }: RetentionPublication,
): void => {
  const { now } = tx
  tx.run(forgetOwn, { publisher })
  for (const { dataMs, jobsMs, kind } of rules) {
    tx.run(forgetStopped, { kind, program, now, longAgo: now - Math.ceil(graceMs) })
    tx.run(insertRule, { kind, publisher, program, dataMs, jobsMs, liveUntil: now + Math.ceil(ttlMs) })
  }
}
