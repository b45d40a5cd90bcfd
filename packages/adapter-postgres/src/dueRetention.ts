import { sql } from "kysely"
import type { RetainedData } from "@kiln/core/domain"
import { type DueRetention, retentionAgeOf, type RetentionPeriods } from "@kiln/core/ports"
import { finishedKinds, isNotNeeded } from "./jobs/finishedKinds.ts"
import { retainedPart } from "./jobs/jobRow.ts"
import type { Session } from "./Session.ts"
import { type Given, query, statement, storeTime, wholeAge } from "./Statement.ts"
import { isUnused } from "./uploads/uploadRow.ts"

/** Inclusive. */
type By = { by: number }

type ByKind = By & { kind: string }

const finished = (given: Given<ByKind>, retained: RetainedData) =>
  query
    .selectFrom("results")
    .where(retainedPart, "=", retained)
    .where("results.kind", "=", given.kind)
    .where("results.finished_at", "<=", given.by)
    .where(isNotNeeded)

const kindsThat = statement((given: Given<{ retained: RetainedData }>) =>
  query.selectFrom(finishedKinds(given.retained).as("kinds")).select("kinds.kind"),
)

const total = (column: "files.bytes" | "uploads.bytes") =>
  sql<number>`coalesce(sum(${sql.ref(column)}), 0)::bigint`.as("bytes")

const countFinished = (retained: RetainedData) =>
  statement((given: Given<ByKind>) => finished(given, retained).select((of) => of.fn.countAll<number>().as("count")))

const counts = { kept: countFinished("kept"), expired: countFinished("expired"), deleted: countFinished("deleted") }

const bytesOfFiles = statement((given: Given<ByKind>) =>
  finished(given, "kept").innerJoin("files", "files.job_seq", "results.job_seq").select(total("files.bytes")),
)

const bytesOfUsedUploads = statement((given: Given<ByKind>) =>
  finished(given, "kept")
    .innerJoin("jobs", "jobs.seq", "results.job_seq")
    .innerJoin("uploads", "uploads.id", "jobs.upload_id")
    .select(total("uploads.bytes")),
)

const sweptUploads = (erased: boolean) =>
  statement((given: Given<By>) =>
    query
      .selectFrom("uploads")
      .select((of) => [of.fn.countAll<number>().as("count"), total("uploads.bytes")])
      .where("erased", "=", erased)
      .where("sweep_at", "<=", given.by)
      .where(isUnused),
  )

const unusedUploads = sweptUploads(false)
const erasedUploads = sweptUploads(true)

const currentTime = statement(() => query.selectNoFrom(storeTime.as("now")))

/** Counts by the conditions of `expireData`, `deleteJobs`, `expireUploads` and `deleteUploads`. */
export const readDueRetention = async (
  session: Session,
  { data, jobs, uploads }: RetentionPeriods,
): Promise<DueRetention> => {
  const now = (await session.get(currentTime, {}))?.now ?? 0
  const unused = await session.get(unusedUploads, { by: now })
  const erased = await session.get(erasedUploads, { by: now - wholeAge(uploads) })
  const due = {
    expiredData: 0,
    deletedJobs: 0,
    expiredUploads: unused?.count ?? 0,
    deletedUploads: erased?.count ?? 0,
    bytes: unused?.bytes ?? 0,
  }
  for (const retained of ["kept", "expired", "deleted"] as const)
    for (const { kind } of await session.all(kindsThat, { retained })) {
      const dataBy = now - wholeAge(retentionAgeOf(data, kind))
      const recordsBy = now - wholeAge(retentionAgeOf(jobs, kind))
      due.deletedJobs += (await session.get(counts[retained], { kind, by: recordsBy }))?.count ?? 0
      if (retained !== "kept") continue
      const filesBy = { kind, by: Math.max(dataBy, recordsBy) }
      due.expiredData += (await session.get(counts.kept, { kind, by: dataBy }))?.count ?? 0
      due.bytes += (await session.get(bytesOfFiles, filesBy))?.bytes ?? 0
      due.bytes += (await session.get(bytesOfUsedUploads, filesBy))?.bytes ?? 0
    }
  return due
}
