import { sql } from "kysely"
import type { RetainedData } from "@kiln/core/domain"
import { type DueRetention, retentionAgeOf, type RetentionPeriods } from "@kiln/core/ports"
import { finishedKinds, isNotNeeded } from "../jobs/finishedKinds.ts"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"

/** Inclusive. */
type By = { readonly by: number }

type ByKind = By & { readonly kind: string }

const finished = (given: Given<ByKind>, retained: RetainedData) =>
  query
    .selectFrom("jobs")
    .where("jobs.retained", "=", retained)
    .where("jobs.kind", "=", given.kind)
    .where("jobs.finished_at", "<=", given.by)
    .where(isNotNeeded)

const total = (column: "files.bytes" | "uploads.bytes") => sql<number>`coalesce(sum(${sql.ref(column)}), 0)`.as("bytes")

const countFinished = (retained: RetainedData) =>
  statement((given: Given<ByKind>) => finished(given, retained).select((of) => of.fn.countAll<number>().as("count")))

const counts = { kept: countFinished("kept"), expired: countFinished("expired"), deleted: countFinished("deleted") }

const bytesOfFiles = statement((given: Given<ByKind>) =>
  finished(given, "kept").innerJoin("files", "files.job_seq", "jobs.seq").select(total("files.bytes")),
)

const bytesOfUsedUploads = statement((given: Given<ByKind>) =>
  finished(given, "kept").innerJoin("uploads", "uploads.id", "jobs.upload_id").select(total("uploads.bytes")),
)

const sweptUploads = (erased: 0 | 1) =>
  statement((given: Given<By>) =>
    query
      .selectFrom("uploads")
      .select((of) => [of.fn.countAll<number>().as("count"), total("uploads.bytes")])
      .where("erased", "=", erased)
      .where("sweep_at", "<=", given.by)
      .where((where) =>
        where.not(
          where.exists(where.selectFrom("jobs").select("jobs.seq").whereRef("jobs.upload_id", "=", "uploads.id")),
        ),
      ),
  )

const unusedUploads = sweptUploads(0)
const erasedUploads = sweptUploads(1)

/** Counts by the conditions of `expireData`, `deleteJobs`, `expireUploads` and `deleteUploads`. */
export const readDueRetention = (tx: Transaction, { data, jobs, uploads }: RetentionPeriods): DueRetention => {
  const unused = tx.get(unusedUploads, { by: tx.now })
  const due = {
    expiredData: 0,
    deletedJobs: 0,
    expiredUploads: unused?.count ?? 0,
    deletedUploads: tx.get(erasedUploads, { by: tx.now - uploads })?.count ?? 0,
    bytes: unused?.bytes ?? 0,
  }
  for (const retained of ["kept", "expired", "deleted"] as const)
    for (const kind of finishedKinds(tx, retained)) {
      const dataBy = tx.now - retentionAgeOf(data, kind)
      const recordsBy = tx.now - retentionAgeOf(jobs, kind)
      due.deletedJobs += tx.get(counts[retained], { kind, by: recordsBy })?.count ?? 0
      if (retained !== "kept") continue
      const filesBy = { kind, by: Math.max(dataBy, recordsBy) }
      due.expiredData += tx.get(counts.kept, { kind, by: dataBy })?.count ?? 0
      due.bytes += tx.get(bytesOfFiles, filesBy)?.bytes ?? 0
      due.bytes += tx.get(bytesOfUsedUploads, filesBy)?.bytes ?? 0
    }
  return due
}
