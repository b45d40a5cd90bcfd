import { sql } from "kysely"
import type { Job, JobId, JobState, JobStatus, JsonObject, OutputFile } from "@kiln/core/domain"
import { keylessPrefix } from "@kiln/core/rules"
import { submittedNames, stateNames, decodeCheckpoints, decodeJob, decodeState } from "@kiln/sql-store"
import { type Given, listStatement, query, type RowOf, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"
import { assign, type Flag, select, type Values } from "../columns.ts"

/** The columns that transitions change, and what a transition needs besides. */
export const stateColumns = [
  ...select("jobs", "seq", "id", "lane_id", "mode", "created_at", "queue_limit_ms", "run_limit_ms"),
  ...select("jobs", ...stateNames, "error_code", "finished_at"),
] as const

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
  .select(select("jobs", ...submittedNames, "retained", "warning_code", "output", "charge"))
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

type Moving = (typeof stateNames)[number]

type From = Values<"jobs", "seq"> & {
  readonly fromStatus: JobStatus
  readonly fromHeld: Flag
  readonly fromToken: number
}

/** The state a move was computed from is in the WHERE: status, held and token are the fence of a stale attempt. */
const jobAsRead = (given: Given<From>) =>
  query
    .updateTable("jobs")
    .where("seq", "=", given.seq)
    .where("status", "=", given.fromStatus)
    .where("held", "=", given.fromHeld)
    .where("token", "=", given.fromToken)

const moving = (given: Given<Values<"jobs", Moving>>) => assign(given, ...stateNames)

/** Moves that leave a job unfinished. Without the columns of finished jobs, whose triggers and index then cost nothing. */
export const updateUnfinished = statement((given: Given<From & Values<"jobs", Moving>>) =>
  jobAsRead(given).set(moving(given)),
)

/** Moves that end a job, except its completion. */
export const updateFinished = statement((given: Given<From & Values<"jobs", Moving | "finished_at" | "error_code">>) =>
  jobAsRead(given).set({ ...moving(given), ...assign(given, "finished_at", "error_code") }),
)

/** The same, with what a failed job tells its caller. */
const updateFailed = statement(
  (given: Given<From & Values<"jobs", Moving | "finished_at" | "error_code" | "output">>) =>
    jobAsRead(given).set({ ...moving(given), ...assign(given, "finished_at", "error_code", "output") }),
)

/**
 * Writes every move except `extended` and `completed`. Returns false if the job is no longer in the state of `from`. `output` is what
 * a job that fails tells its caller.
 */
export const writeState = (tx: Transaction, from: StateRow, to: JobState, output?: JsonObject): boolean => {
  const unfinished = {
    ...to,
    seq: from.seq,
    fromStatus: from.status,
    fromHeld: from.held,
    fromToken: from.token,
    held: to.held ? (1 as const) : (0 as const),
  }
  if (to.finishedAt === null) return tx.run(updateUnfinished, unfinished) === 1
  const finished = { ...unfinished, finishedAt: to.finishedAt, errorCode: to.errorCode }
  return output === undefined
    ? tx.run(updateFinished, finished) === 1
    : tx.run(updateFailed, { ...finished, output: JSON.stringify(output) }) === 1
}

/** A row as it was read, and the state it moves to. */
export interface Move {
  readonly from: StateRow
  readonly to: JobState
}

type ClaimValues = { readonly seqs: string; readonly now: number; readonly leaseDurationMs: number }

/**
 * Claims jobs that nobody holds, given as a JSON list of row numbers, in one statement. Computes what `applyEvent` computes, because
 * binding the new values of each row costs a third of the statement.
 */
export const updateWaiting = statement((given: Given<ClaimValues>) => {
  const { leaseDurationMs, now } = given
  const waitedMs = sql<number>`(waited_ms + max(0, ${now} - phase_started_at))`
  const runsUntil = sql<number>`(${now} + run_limit_ms - ran_ms)`
  const leaseEndsAt = sql<number>`min(${now} + ${leaseDurationMs}, ${runsUntil})`
  return query
    .updateTable("jobs")
    .set({
      status: "processing",
      held: 1,
      token: sql<number>`token + 1`,
      claimable_at: leaseEndsAt,
      deadline_at: sql<number>`iif(${leaseEndsAt} = ${runsUntil}, ${runsUntil}, ${leaseEndsAt} + max(0, queue_limit_ms - ${waitedMs}))`,
      phase_started_at: now,
      waited_ms: waitedMs,
      attempts: sql<number>`attempts + 1`,
    })
    .where("seq", "in", sql<number>`(SELECT value FROM json_each(${given.seqs}))`)
    .where("held", "=", 0)
})

const times = ["claimable_at", "deadline_at", "phase_started_at", "ran_ms", "waited_ms"] as const
const claimed = ["token", ...times, "attempts", "lost_workers"] as const

/** Claims jobs of lost workers. Claims change no other column. The fence is the token, which grows with every claim and every end of one. */
export const updateLost = listStatement("jobs", ["seq", ...claimed], (items) =>
  query
    .updateTable("jobs")
    .from(items.as("claimed"))
    .set((to) => ({
      status: "processing",
      held: 1,
      ...(Object.fromEntries(claimed.map((name) => [name, to.ref(`claimed.${name}`)])) as {}),
    }))
    .whereRef("jobs.seq", "=", "claimed.seq")
    .where((where) => where("jobs.token", "=", sql<number>`${sql.ref("claimed.token")} - 1`)),
)

/** Writes claims under leases of this duration, which were computed from rows read in this transaction. */
export const writeClaims = (tx: Transaction, moves: ReadonlyArray<Move>, leaseDurationMs: number): void => {
  const waiting = moves.flatMap(({ from }) => (from.held === 0 ? [from.seq] : []))
  const lost = moves.flatMap(({ from: { held, seq }, to }) => (held === 0 ? [] : [{ seq, ...to }]))
  let written = 0
  if (waiting.length > 0)
    written += tx.run(updateWaiting, { seqs: JSON.stringify(waiting), now: tx.now, leaseDurationMs })
  written += tx.runList(updateLost, lost, {})
  if (written !== moves.length) throw new TypeError(`${moves.length - written} jobs could not be claimed`)
}
