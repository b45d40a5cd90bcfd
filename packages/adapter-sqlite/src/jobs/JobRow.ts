import { sql } from "kysely"
import { type Job, type JobId, type JobState, keylessPrefix, type OutputFile } from "@kiln/core/domain"
import { decodeCheckpoints, decodeJob, decodeState } from "@kiln/sql-store"
import { select, type Values } from "../columns.ts"
import { type Given, query, type RowOf, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"

/** The columns that transitions change, and what a transition needs besides. */
export const stateColumns = select(
  "jobs",
  "seq",
  "id",
  "lane_id",
  "mode",
  "created_at",
  "queue_limit_ms",
  "run_limit_ms",
  "status",
  "token",
  "held",
  "claimable_at",
  "deadline_at",
  "phase_started_at",
  "ran_ms",
  "waited_ms",
  "attempts",
  "failures",
  "lost_workers",
  "error_code",
  "finished_at",
)

/** A transition is computed from this. By id alone, because the token of a claim is the authorization. */
export const stateById = statement((given: Given<Values<"jobs", "id">>) =>
  query.selectFrom("jobs").select(stateColumns).where("id", "=", given.id),
)

export type StateRow = RowOf<typeof stateById>

/** All columns of a job except its files. Erased jobs have no request, and sandbox jobs have no price. */
export const selectJobs = query
  .selectFrom("jobs")
  .leftJoin("prices", "prices.id", "jobs.price_id")
  .select(stateColumns)
  .select(
    select(
      "jobs",
      "project_id",
      "key_id",
      "kind",
      "kind_version",
      "upload_id",
      "priority",
      "kept",
      "idempotency_key",
      "fingerprint",
      "retained",
      "warning_code",
      "output",
      "charge",
    ),
  )
  .select((from) =>
    // Looks for a long request only if the row has no short one.
    from.fn
      .coalesce(
        "jobs.request",
        from.selectFrom("job_data").select("job_data.request").whereRef("job_data.job_seq", "=", "jobs.seq"),
      )
      .as("request"),
  )
  .select([
    "prices.name as priceName",
    "prices.version as priceVersion",
    "prices.currency as priceCurrency",
    "prices.unit_amounts as priceUnitAmounts",
  ])

export const jobBySeq = statement((given: Given<{ readonly seq: number }>) =>
  selectJobs.where("jobs.seq", "=", given.seq),
)

/** Regardless of owner, for operators. */
export const jobById = statement((given: Given<Values<"jobs", "id">>) => selectJobs.where("jobs.id", "=", given.id))

/** Only for its owner: callers have no query by id alone. */
export const jobByOwner = statement((given: Given<Values<"jobs", "id" | "project_id" | "key_id" | "mode">>) =>
  selectJobs
    .where("jobs.id", "=", given.id)
    .where("jobs.project_id", "=", given.projectId)
    .where("jobs.key_id", "=", given.keyId)
    .where("jobs.mode", "=", given.mode),
)

/** The condition of the index of idempotency keys. */
export const isIndexedKey = sql<boolean>`idempotency_key <> ${sql.lit(keylessPrefix)} || ${sql.ref("jobs.id")}`

export const jobByIdempotencyKey = statement((given: Given<Values<"jobs", "key_id" | "idempotency_key">>) =>
  selectJobs
    .where("jobs.key_id", "=", given.keyId)
    .where("jobs.idempotency_key", "=", given.idempotencyKey)
    .where(isIndexedKey),
)

/** The job whose idempotency key names the job itself. */
export const jobByKeylessKey = statement((given: Given<Values<"jobs", "key_id" | "idempotency_key">>) =>
  selectJobs
    .where("jobs.id", "=", sql<JobId>`substr(${given.idempotencyKey}, ${sql.lit(keylessPrefix.length + 1)})`)
    .where("jobs.key_id", "=", given.keyId)
    .where("jobs.idempotency_key", "=", given.idempotencyKey),
)

export type JobRow = RowOf<typeof jobBySeq>

/** In the order in which they were committed. */
const filesOfJob = statement((given: Given<{ readonly seq: number }>) =>
  query
    .selectFrom("files")
    .select(["id", "name", "blob_key as blobKey", "media_type as mediaType", "bytes", "sha256"])
    .where("job_seq", "=", given.seq)
    .orderBy("seq"),
)

const checkpointsOfJob = statement((given: Given<{ readonly seq: number }>) =>
  query.selectFrom("checkpoints").select(["step", "value"]).where("job_seq", "=", given.seq),
)

const noFiles: ReadonlyArray<OutputFile> = []
const noCheckpoints: Job["checkpoints"] = {}

/**
 * Decodes a job, in the state of its row or the state it moves to. Reads files and checkpoints only if the job can have any:
 * before the first attempt there are no checkpoints, and a done job has none. Throws `UndecodableRow` if the row is damaged.
 */
export const jobOf = (tx: Transaction, row: JobRow, state: JobState = stateOf(row)): Job =>
  decodeJob(
    row,
    state,
    state.held,
    hasFiles(row) ? tx.all(filesOfJob, { seq: row.seq }) : noFiles,
    row.status === "processing" || (row.status === "failed" && row.retained === "kept")
      ? decodeCheckpoints(row.id, tx.all(checkpointsOfJob, { seq: row.seq }))
      : noCheckpoints,
  )

/** Files have rows only while their job is done and its data is kept; the statements check the job anyway. */
export const hasFiles = (row: Pick<JobRow, "retained" | "status">): boolean =>
  row.retained === "kept" && row.status === "done"

export const stateOf = (row: StateRow): JobState => decodeState(row, row.held === 1, row.errorCode, row.finishedAt)
