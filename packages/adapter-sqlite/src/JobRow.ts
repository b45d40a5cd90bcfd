import type {
  Charge,
  Job,
  JobId,
  JobMode,
  JobState,
  JsonObject,
  KeyId,
  OutputFile,
  PriceSnapshot,
  Priority,
  ProjectId,
} from "@kiln/core/domain"
import { priorityOfRank } from "@kiln/core/domain"
import { decodeAmounts, decodeJson, decodeObject, UndecodableRow } from "@kiln/core/ports"
import { type Given, query, type RowOf, statement } from "./Statement.ts"
import type { Flag } from "./Tables.ts"
import type { Transaction } from "./Transaction.ts"

/** The columns that transitions change, under their names in the domain, with what a transition needs beside them. */
export const stateColumns = [
  "jobs.seq",
  "jobs.id",
  "jobs.lane_id as laneId",
  "jobs.mode",
  "jobs.created_at as createdAt",
  "jobs.queue_limit_ms as queueLimitMs",
  "jobs.run_limit_ms as runLimitMs",
  "jobs.status",
  "jobs.token",
  "jobs.held",
  "jobs.claimable_at as claimableAt",
  "jobs.deadline_at as deadlineAt",
  "jobs.phase_started_at as phaseStartedAt",
  "jobs.ran_ms as ranMs",
  "jobs.waited_ms as waitedMs",
  "jobs.attempts",
  "jobs.failures",
  "jobs.lost_workers as lostWorkers",
  "jobs.error_code as errorCode",
  "jobs.finished_at as finishedAt",
] as const

/** What `stateColumns` selects. */
export interface StateRow extends Omit<JobState, "held"> {
  readonly seq: number
  readonly id: JobId
  readonly laneId: number
  readonly mode: JobMode
  readonly createdAt: number
  readonly held: Flag
}

/** Everything of a job but its files. `job_data` has no row once the data is gone, a sandbox job has no price. */
const selectJobs = query
  .selectFrom("jobs")
  .leftJoin("job_data", "job_data.job_seq", "jobs.seq")
  .leftJoin("prices", "prices.id", "jobs.price_id")
  .select(stateColumns)
  .select([
    "jobs.project_id as projectId",
    "jobs.key_id as keyId",
    "jobs.kind",
    "jobs.kind_version as kindVersion",
    "jobs.upload_id as uploadId",
    "jobs.priority",
    "jobs.kept",
    "jobs.idempotency_key as idempotencyKey",
    "jobs.fingerprint",
    "jobs.retained",
    "jobs.warning_code as warningCode",
    "jobs.output",
    "jobs.charge",
    "job_data.request",
    "prices.name as priceName",
    "prices.version as priceVersion",
    "prices.currency as priceCurrency",
    "prices.unit_amounts as priceUnitAmounts",
  ])

export const jobBySeq = statement((given: Given<{ seq: number }>) => selectJobs.where("jobs.seq", "=", given.seq))

/** Whosever it is: for the operator. */
export const jobById = statement((given: Given<{ id: JobId }>) => selectJobs.where("jobs.id", "=", given.id))

/** Only its owner's: above the store callers have no query by id alone. */
export const jobByOwner = statement((given: Given<{ id: JobId; projectId: ProjectId; keyId: KeyId; mode: JobMode }>) =>
  selectJobs
    .where("jobs.id", "=", given.id)
    .where("jobs.project_id", "=", given.projectId)
    .where("jobs.key_id", "=", given.keyId)
    .where("jobs.mode", "=", given.mode),
)

export const jobByIdempotencyKey = statement((given: Given<{ keyId: KeyId; idempotencyKey: string }>) =>
  selectJobs.where("jobs.key_id", "=", given.keyId).where("jobs.idempotency_key", "=", given.idempotencyKey),
)

type JobRow = RowOf<typeof jobBySeq>

/** Files in the order in which they were committed. */
const filesOfJob = statement((given: Given<{ seq: number }>) =>
  query
    .selectFrom("files")
    .select(["id", "name", "blob_key as blobKey", "media_type as mediaType", "bytes", "sha256"])
    .where("job_seq", "=", given.seq)
    .orderBy("seq"),
)

const checkpointsOfJob = statement((given: Given<{ seq: number }>) =>
  query.selectFrom("checkpoints").select(["step", "value"]).where("job_seq", "=", given.seq),
)

/** Reads files and checkpoints as well, where there can be some. Throws `UndecodableRow` where the row is damaged. */
export const jobOf = (tx: Transaction, row: JobRow): Job => {
  const kept = row.retained === "kept"
  if (kept !== (row.request !== null)) throw new UndecodableRow(`${row.id} has lost its data`)
  const files: ReadonlyArray<OutputFile> = kept && row.status === "done" ? tx.all(filesOfJob, { seq: row.seq }) : []
  return {
    id: row.id,
    projectId: row.projectId,
    keyId: row.keyId,
    mode: row.mode,
    kind: row.kind,
    kindVersion: row.kindVersion,
    uploadId: row.uploadId,
    priority: priorityOf(row.priority, row.id),
    idempotencyKey: row.idempotencyKey,
    fingerprint: row.fingerprint,
    price: priceOf(row),
    kept: decodeObject(row.kept, `the kept fields of ${row.id}`),
    createdAt: row.createdAt,
    ...stateOf(row),
    retained: row.retained,
    request: objectOrNull(row, "request"),
    checkpoints: row.status === "processing" ? checkpointsOf(tx, row) : {},
    output: objectOrNull(row, "output"),
    files,
    warningCode: row.warningCode,
    charge: chargeOf(row),
  }
}

export const stateOf = (row: StateRow): JobState => ({
  queueLimitMs: row.queueLimitMs,
  runLimitMs: row.runLimitMs,
  status: row.status,
  token: row.token,
  held: row.held === 1,
  claimableAt: row.claimableAt,
  deadlineAt: row.deadlineAt,
  phaseStartedAt: row.phaseStartedAt,
  ranMs: row.ranMs,
  waitedMs: row.waitedMs,
  attempts: row.attempts,
  failures: row.failures,
  lostWorkers: row.lostWorkers,
  errorCode: row.errorCode,
  finishedAt: row.finishedAt,
})

/** The priority a row holds as its rank. */
export const priorityOf = (rank: number, id: JobId): Priority => {
  const priority = priorityOfRank(rank)
  if (priority === undefined) throw new UndecodableRow(`${id} has no priority`)
  return priority
}

const objectOrNull = (row: JobRow, column: "request" | "output"): JsonObject | null => {
  const text = row[column]
  return text === null ? null : decodeObject(text, `the ${column} of ${row.id}`)
}

const checkpointsOf = (tx: Transaction, { id, seq }: JobRow): Job["checkpoints"] =>
  Object.fromEntries(
    tx.all(checkpointsOfJob, { seq }).map(({ step, value }) => [step, decodeJson(value, `a checkpoint of ${id}`)]),
  )

const priceOf = (row: JobRow): PriceSnapshot | null => {
  const { priceName: name, priceVersion: version, priceCurrency: currency, priceUnitAmounts: unitAmounts } = row
  if (name === null || version === null || currency === null || unitAmounts === null) return null
  return { name, version, currency, unitAmounts: decodeAmounts(unitAmounts, `price ${name} ${version}`) }
}

const chargeOf = (row: JobRow): Charge | null =>
  row.charge === null ? null : (decodeObject(row.charge, `the charge of ${row.id}`) as JsonObject & Charge)
