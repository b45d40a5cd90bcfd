import { sql } from "kysely"
import type { RetainedData } from "@kiln/core/domain"
import type { DueRetention, RetentionPeriods } from "@kiln/core/ports"
import { retainedPart } from "./jobs/jobRow.ts"
import type { Session } from "./Session.ts"
import { type Given, query, statement, storeTime } from "./Statement.ts"

/** Inclusive. */
type By = { by: number }

const finished = (given: Given<By>, retained: RetainedData) =>
  query.selectFrom("results").where(retainedPart, "=", retained).where("results.finished_at", "<=", given.by)

const total = (column: "files.bytes" | "uploads.bytes") =>
  sql<number>`coalesce(sum(${sql.ref(column)}), 0)::bigint`.as("bytes")

const countFinished = (retained: RetainedData) =>
  statement((given: Given<By>) => finished(given, retained).select((of) => of.fn.countAll<number>().as("count")))

const counts = { kept: countFinished("kept"), expired: countFinished("expired"), deleted: countFinished("deleted") }

const bytesOfFiles = statement((given: Given<By>) =>
  finished(given, "kept").innerJoin("files", "files.job_seq", "results.job_seq").select(total("files.bytes")),
)

const bytesOfUsedUploads = statement((given: Given<By>) =>
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
      .where((where) =>
        where.not(
          where.exists(where.selectFrom("jobs").select("jobs.seq").whereRef("jobs.upload_id", "=", "uploads.id")),
        ),
      ),
  )

const unusedUploads = sweptUploads(false)
const erasedUploads = sweptUploads(true)

const currentTime = statement(() => query.selectNoFrom(storeTime.as("now")))

/** Earlier than every time: nothing is due. */
const never = -1

/** Counts by the conditions of `expireData`, `deleteJobs`, `expireUploads` and `deleteUploads`. */
export const readDueRetention = async (
  session: Session,
  { dataRetentionMs, jobRetentionMs }: RetentionPeriods,
): Promise<DueRetention> => {
  const now = (await session.get(currentTime, {}))?.now ?? 0
  const dataBy = dataRetentionMs > 0 ? now - dataRetentionMs : never
  const recordsBy = jobRetentionMs > 0 ? now - jobRetentionMs : never
  const filesBy = { by: Math.max(dataBy, recordsBy) }
  const countOf = async (retained: RetainedData, by: number): Promise<number> =>
    (await session.get(counts[retained], { by }))?.count ?? 0
  const [expiredData, kept, expired, deleted, unused, erased, files, uploads] = await Promise.all([
    countOf("kept", dataBy),
    countOf("kept", recordsBy),
    countOf("expired", recordsBy),
    countOf("deleted", recordsBy),
    session.get(unusedUploads, { by: now }),
    session.get(erasedUploads, { by: recordsBy }),
    session.get(bytesOfFiles, filesBy),
    session.get(bytesOfUsedUploads, filesBy),
  ])
  return {
    expiredData,
    deletedJobs: kept + expired + deleted,
    expiredUploads: unused?.count ?? 0,
    deletedUploads: erased?.count ?? 0,
    bytes: (files?.bytes ?? 0) + (uploads?.bytes ?? 0) + (unused?.bytes ?? 0),
  }
}
