import { sql } from "kysely"
import { jsonArrayFrom } from "kysely/helpers/postgres"
import type { Job, JobId, JobMode, JobState, JobStatus, KeyId, ProjectId, RetainedData } from "@kiln/core/domain"
import { decodeCheckpoints, decodeJob, decodeState, submittedNames, stateNames } from "@kiln/sql-store"
import { select } from "../columns.ts"
import { batchStatement, integer, query, type RowOf, text } from "../Statement.ts"

/** The columns of an unfinished job that transitions read or change, under their domain names. */
export const stateColumns = [
  "queue.job_seq as seq",
  ...select("queue", "id", "lane_id", "mode", "created_at", "queue_limit_ms", "run_limit_ms", ...stateNames),
] as const

/** A row of `stateColumns`. */
export interface StateRow extends Omit<JobState, "errorCode" | "finishedAt"> {
  readonly id: JobId
  readonly seq: number
  readonly laneId: number
  readonly mode: JobMode
  readonly createdAt: number
}

export const stateOf = (row: StateRow): JobState => decodeState(row, row.held, null, null)

/** Selects a column from the queue while the job is unfinished, and from its result afterwards. */
export const either = <A>(
  column: "status" | "token" | "ran_ms" | "waited_ms" | "attempts" | "failures" | "lost_workers",
) => sql<A>`coalesce(${sql.ref(`queue.${column}`)}, ${sql.ref(`results.${column}`)})`

/** Selects whether the data of a job is kept, erased or expired. */
export const retained = sql<RetainedData>`coalesce(results.retained, 'kept')`

/** The first columns of the indexes of results. Expressions, so that no plan searches an index that only knows part of its key. */
export const retainedPart = sql<RetainedData>`coalesce(results.retained, '')`
export const statusPart = sql<JobStatus>`coalesce(results.status, '')`

/** Selects everything of a job in one statement, so from one snapshot. A request is `null` once it is erased; a sandbox job has no price. */
const selectJobs = query
  .selectFrom("jobs")
  .leftJoin("queue", "queue.id", "jobs.id")
  .leftJoin("results", "results.job_seq", "jobs.seq")
  .leftJoin("prices", "prices.id", "jobs.price_id")
  .select(select("jobs", "seq", "id", ...submittedNames, "created_at", "queue_limit_ms", "run_limit_ms", "request"))
  .select(select("results", "finished_at", "error_code", "warning_code", "charge", "output"))
  .select(select("queue", "held", "claimable_at", "deadline_at", "phase_started_at"))
  .select(["prices.name as priceName", "prices.version as priceVersion"])
  .select(["prices.currency as priceCurrency", "prices.unit_amounts as priceUnitAmounts"])
  .select([
    either<JobStatus>("status").as("status"),
    either<number>("token").as("token"),
    either<number>("ran_ms").as("ranMs"),
    either<number>("waited_ms").as("waitedMs"),
    either<number>("attempts").as("attempts"),
    either<number>("failures").as("failures"),
    either<number>("lost_workers").as("lostWorkers"),
    retained.as("retained"),
  ])
  .select((from) => [
    // Files in the order of their insertion.
    jsonArrayFrom(
      from
        .selectFrom("files")
        .select(select("files", "id", "name", "blob_key", "media_type", "bytes", "sha256"))
        .whereRef("files.job_seq", "=", "jobs.seq")
        .orderBy("files.seq"),
    ).as("files"),
    jsonArrayFrom(
      from.selectFrom("checkpoints").select(["step", "value"]).whereRef("checkpoints.job_id", "=", "jobs.id"),
    ).as("checkpoints"),
  ])

export const jobsBySeq = batchStatement({ seq: integer() }, (item) =>
  selectJobs.innerJoin(item, (join) => join.onRef("item.seq", "=", "jobs.seq")).orderBy("item.ord"),
)

/** The fields of an item that names a job and its owner: callers cannot query by id alone. */
export const owned = { id: text<JobId>(), projectId: text<ProjectId>(), keyId: text<KeyId>(), mode: text<JobMode>() }

/**
 * Whether a job is the one that an item of `owned` names. The id finds the row. The key is compared in a way that no index supports, or the
 * planner might use the index that holds all jobs of a key.
 */
export const isOfOwner = sql<boolean>`"item"."id" = "jobs"."id" and "item"."projectId" = "jobs"."project_id"
  and "item"."keyId" is not distinct from "jobs"."key_id" and "item"."mode" = "jobs"."mode"`

export const jobsByOwner = batchStatement(owned, (item) =>
  selectJobs.innerJoin(item, (join) => join.on(isOfOwner)).select("item.ord"),
)

/** Regardless of owner. Only for the operator. */
export const jobsById = batchStatement({ id: text<JobId>() }, (item) =>
  selectJobs.innerJoin(item, (join) => join.onRef("item.id", "=", "jobs.id")),
)

export const jobsByIdempotencyKey = batchStatement({ keyId: text<KeyId>(), idempotencyKey: text() }, (item) =>
  selectJobs.innerJoin(item, (join) =>
    join.onRef("item.keyId", "=", "jobs.key_id").onRef("item.idempotencyKey", "=", "jobs.idempotency_key"),
  ),
)

export type JobRow = RowOf<typeof jobsById>

/** Throws `UndecodableRow` where the row is damaged. */
export const jobOf = (row: JobRow): Job =>
  decodeJob(
    row,
    row,
    row.held ?? false,
    row.retained === "kept" ? row.files : [],
    decodeCheckpoints(row.id, row.checkpoints),
  )
