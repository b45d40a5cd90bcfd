import {
  type Charge,
  type Job,
  type JobId,
  type JobState,
  type JsonObject,
  type OutputFile,
  type PriceSnapshot,
  type Priority,
  priorityOfRank,
} from "@kiln/core/domain"
import { decodeAmounts, decodeJson, decodeObject, UndecodableRow } from "@kiln/core/ports"
import { type Selectable, sql } from "kysely"
import { select, type Tables, type Values } from "../columns.ts"
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

/** SQLite would scan the table if `ANALYZE` had run while it was small. */
const filesByJob = sql<Selectable<Tables["files"]>>`${sql.table("files")}`.as<"files">(
  sql`${sql.table("files")} indexed by sqlite_autoindex_kiln_files_2`,
)

/**
 * Only for its owner: callers have no query by id alone. Has a row for each file, and the checkpoints of a running job, so that
 * one statement reads the whole job from one snapshot. The rows are not sorted: that would take SQLite a third of the time.
 */
export const jobByOwner = statement((given: Given<Values<"jobs", "id" | "project_id" | "key_id" | "mode">>) =>
  selectJobs
    .leftJoin(filesByJob, "files.job_seq", "jobs.seq")
    .select([
      "files.seq as fileSeq",
      "files.id as fileId",
      "files.name as fileName",
      "files.blob_key as blobKey",
      "files.media_type as mediaType",
      "files.bytes",
      "files.sha256",
    ])
    .select((of) =>
      of
        .case()
        .when("jobs.status", "=", "processing")
        .then(
          of
            .selectFrom("checkpoints")
            .select(({ fn }) => fn<string>("json_group_object", ["step", "value"]).as("values"))
            .whereRef("checkpoints.job_seq", "=", "jobs.seq"),
        )
        .end()
        .as("checkpoints"),
    )
    .where("jobs.id", "=", given.id)
    .where("jobs.project_id", "=", given.projectId)
    .where("jobs.key_id", "=", given.keyId)
    .where("jobs.mode", "=", given.mode),
)

export const jobByIdempotencyKey = statement((given: Given<Values<"jobs", "key_id" | "idempotency_key">>) =>
  selectJobs.where("jobs.key_id", "=", given.keyId).where("jobs.idempotency_key", "=", given.idempotencyKey),
)

export type JobRow = RowOf<typeof jobBySeq>
type OwnedRow = RowOf<typeof jobByOwner>

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
 * before the first attempt there are no checkpoints. Throws `UndecodableRow` if the row is damaged.
 */
export const jobOf = (tx: Transaction, row: JobRow, state: JobState = stateOf(row)): Job =>
  decodeJob(
    row,
    state,
    hasFiles(row) ? tx.all(filesOfJob, { seq: row.seq }) : noFiles,
    row.status === "processing" ? checkpointsOf(tx, row) : noCheckpoints,
  )

/** Decodes the rows of `jobByOwner`: a job, if there is any. Throws `UndecodableRow` if a row is damaged. */
export const ownedJobOf = (rows: ReadonlyArray<OwnedRow>): Job | undefined => {
  const [row] = rows
  if (row === undefined) return undefined
  const files = hasFiles(row)
    ? rows.toSorted((one, other) => (one.fileSeq ?? 0) - (other.fileSeq ?? 0)).flatMap(fileOf)
    : noFiles
  return decodeJob(row, stateOf(row), files, row.checkpoints === null ? noCheckpoints : stepsOf(row, row.checkpoints))
}

const hasFiles = (row: JobRow): boolean => row.retained === "kept" && row.status === "done"

/** Returns the file of a row; a job without files has one row without a file. */
const fileOf = ({
  blobKey,
  bytes,
  fileId: id,
  fileName: name,
  mediaType,
  sha256,
}: OwnedRow): ReadonlyArray<OutputFile> =>
  id === null || name === null || blobKey === null || mediaType === null || bytes === null || sha256 === null
    ? []
    : [{ id, name, blobKey, mediaType, bytes, sha256 }]

const decodeJob = (
  row: JobRow,
  state: JobState,
  files: ReadonlyArray<OutputFile>,
  checkpoints: Job["checkpoints"],
): Job => {
  const kept = row.retained === "kept"
  if (kept !== (row.request !== null)) throw new UndecodableRow(`${row.id} has lost its data`)
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
    queueLimitMs: state.queueLimitMs,
    runLimitMs: state.runLimitMs,
    status: state.status,
    token: state.token,
    held: state.held,
    claimableAt: state.claimableAt,
    deadlineAt: state.deadlineAt,
    phaseStartedAt: state.phaseStartedAt,
    ranMs: state.ranMs,
    waitedMs: state.waitedMs,
    attempts: state.attempts,
    failures: state.failures,
    lostWorkers: state.lostWorkers,
    errorCode: state.errorCode,
    finishedAt: state.finishedAt,
    retained: row.retained,
    request: objectOrNull(row, "request"),
    checkpoints,
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

/** Returns the priority of a rank, which is how rows store it. */
export const priorityOf = (rank: number, id: JobId): Priority => {
  const priority = priorityOfRank(rank)
  if (priority === undefined) throw new UndecodableRow(`${id} has an invalid priority`)
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

/** Decodes checkpoints that SQLite has put into one object, with their texts as its values. */
const stepsOf = ({ id }: JobRow, texts: string): Job["checkpoints"] => {
  const steps = decodeObject(texts, `the checkpoints of ${id}`) as JsonObject & Readonly<Record<string, string>>
  return Object.fromEntries(
    Object.entries(steps).map(([step, value]) => [step, decodeJson(value, `a checkpoint of ${id}`)]),
  )
}

const priceOf = (row: JobRow): PriceSnapshot | null => {
  const { priceName: name, priceVersion: version, priceCurrency: currency, priceUnitAmounts: unitAmounts } = row
  if (name === null || version === null || currency === null || unitAmounts === null) return null
  return { name, version, currency, unitAmounts: decodeAmounts(unitAmounts, `price ${name} ${version}`) }
}

const chargeOf = (row: JobRow): Charge | null =>
  row.charge === null ? null : (decodeObject(row.charge, `the charge of ${row.id}`) as JsonObject & Charge)
