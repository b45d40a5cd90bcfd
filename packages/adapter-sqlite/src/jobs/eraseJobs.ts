import { blobPrefixesOf, isFinished, type RetainedData, strongerWarning, type UploadId } from "@kiln/core/domain"
import { type EraseOutcome, type Erasure, type PruneResult, type RetentionAge, retentionAgeOf } from "@kiln/core/ports"
import { purgesStillDue, recordPurges } from "@kiln/sql-store"
import { assign, select, type Values } from "../columns.ts"
import { type Given, query, type RowOf, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"
import { runIn } from "../transactionsOf.ts"
import { eraseAttempts } from "./attempts.ts"
import { finishedKinds, isNotNeeded } from "./finishedKinds.ts"

/** The facts about a job that erasing and deleting need. */
export const retentionColumns = select(
  "jobs",
  "seq",
  "id",
  "upload_id",
  "status",
  "error_code",
  "retained",
  "warning_code",
)

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
  eraseAttempts(tx, job.seq)
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
