import { blobPrefixesOf, type RetainedData, type UploadId } from "@kiln/core/domain"
import { type PruneResult, type RetentionAge, retentionAgeOf } from "@kiln/core/ports"
import { recordPurges } from "@kiln/sql-store"
import { type Given, query, type RowOf, statement } from "../Statement.ts"
import { storeTime } from "../StoreClock.ts"
import type { Transaction } from "../Transaction.ts"
import { runIn } from "../transactionsOf.ts"
import { retentionColumns } from "./eraseJobs.ts"
import { finishedKinds, isNotNeeded } from "./finishedKinds.ts"

type Due = { readonly kind: string; readonly finishedBy: number; readonly limit: number }

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
