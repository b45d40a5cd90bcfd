import { type ExpressionBuilder, type RawBuilder, sql } from "kysely"
import type { RetainedData } from "@kiln/core/domain"
import { type DueRetention, retentionAgeOf, type RetentionPeriods } from "@kiln/core/ports"
import type { Tables } from "./columns.ts"
import { type Given, type Program, query, type Sql, statement, wholeAge } from "./Sql.ts"
import { isUnused } from "./uploadSweeps.ts"

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

const unusedUploads = sweptUploads(false)
const erasedUploads = sweptUploads(true)

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
    const unused = yield* tx.get(unusedUploads, { by: now })
    const erased = yield* tx.get(erasedUploads, { by: now - wholeAge(uploads) })
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
