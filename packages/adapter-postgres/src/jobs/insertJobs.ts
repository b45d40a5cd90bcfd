import { type AliasedRawBuilder, type RawBuilder, sql } from "kysely"
import type { UploadId } from "@kiln/core/domain"
import { Superseded } from "../postgresErrors.ts"
import { briefLockTimeoutMs, type Session, type Transaction } from "../Session.ts"
import { batchStatement, type Given, query, statement } from "../Statement.ts"
import { writeLabels } from "./labels.ts"
import { makeLanes, type MayBeClaimable } from "./lanes.ts"
import { type Accepted, type NewRow, packRows, rowsOf } from "./newRows.ts"
import { detachUploads } from "./retriedJobs.ts"

/** How many unfinished jobs a project may have, and how many are added to it. */
export interface CapCheck {
  readonly project_id: string
  readonly cap: number
  readonly adding: number
}

/** What `add_jobs` answers. */
export interface Added {
  /** Store time, Unix milliseconds; `null` where nothing was added. */
  readonly accepted: number | null
  /** The places, counted from 1, of the jobs that were not added because their key is bound. */
  readonly unbound: ReadonlyArray<number> | null
}

/** The parameters of `add_jobs`. */
export type AddJobs = {
  items: string
  shared: string
  wanted: string
  caps: string | null
  acceptedAt: number | null
  own: boolean
  patientMs: string
  briefMs: string
  channel: string | null
  payload: string | null
}

/** The parameters of `add_job`. */
export type AddJob = NewRow["row"] & {
  lane: number
  cap: number | null
  acceptedAt: number | null
  briefMs: string
  channel: string | null
  payload: string | null
}

/** Calls `add_job`, which is defined in the migration. */
export const addJobCall = (given: Given<AddJob>): RawBuilder<number | null> =>
  sql<
    number | null
  >`"kiln".add_job(${given.id}::text, ${given.project_id}::text, ${given.key_id}::text, ${given.mode}::text,
    ${given.kind}::text, ${given.kind_version}::bigint, ${given.upload_id}::text, ${given.priority}::smallint, ${given.kept}::text,
    ${given.idempotency_key}::text, ${given.fingerprint}::text, ${given.price_id}::bigint, ${given.queue_limit_ms}::bigint,
    ${given.run_limit_ms}::bigint, ${given.delay_ms}::bigint, ${given.request}::text, ${given.lane}::bigint, ${given.cap}::bigint,
    ${given.acceptedAt}::bigint, ${given.briefMs}::text, ${given.channel}::text, ${given.payload}::text)`

const addJobStatement = statement((given: Given<AddJob>) => query.selectNoFrom(addJobCall(given).as("accepted")))

/** Returns the answer of `add_job` as that of `add_jobs`. */
export const addedOf = (accepted: number | null): Added => ({ accepted, unbound: accepted === -1 ? [1] : null })

/** Calls `add_jobs`, which is defined in the migration. */
export const addJobsCall = (given: Given<AddJobs>): AliasedRawBuilder<Added, "added"> =>
  sql<Added>`"kiln".add_jobs(${given.items}::json, ${given.shared}::json, ${given.wanted}::json, ${given.caps}::json,
    ${given.acceptedAt}::bigint, ${given.own}::boolean, ${given.patientMs}::text, ${given.briefMs}::text,
    ${given.channel}::text, ${given.payload}::text)`.as<"added">(sql`added`)

const addJobsStatement = statement((given: Given<AddJobs>) =>
  query.selectFrom(addJobsCall(given)).select(["added.accepted", "added.unbound"]),
)

/** Removes consumed uploads from the sweep's index. */
const leaveSweep = batchStatement<{ id: UploadId }, {}, unknown>({ id: "text" }, (item) =>
  query.updateTable("uploads").from(item).set({ sweep_at: null }).whereRef("uploads.id", "=", "item.id"),
)

/** The lanes of these rows, each once, in the order in which lanes are locked. */
const wantedLanes = (rows: ReadonlyArray<NewRow>) => {
  const lanes = new Map<
    number,
    Pick<NewRow["row"], "project_id" | "kind" | "kind_version" | "mode" | "delay_ms"> & { id: number }
  >()
  for (const { laneId: id, row } of rows) {
    const { delay_ms, kind, kind_version, mode, project_id } = row
    const known = lanes.get(id)
    if (known === undefined) lanes.set(id, { id, delay_ms, project_id, kind, kind_version, mode })
    else known.delay_ms = Math.min(known.delay_ms, delay_ms)
  }
  return [...lanes.values()].sort((a, b) => a.id - b.id)
}

/** How jobs are added. */
export interface Adding {
  /** False in a transaction of a caller's. */
  readonly own: boolean
  readonly acceptedAt: number | null
  readonly caps?: ReadonlyArray<CapCheck>
  /** A notification to send with the commit. */
  readonly hint?: { readonly channel: string; readonly payload: string } | undefined
}

/** Returns the parameters that add a job outside of a caller's transaction. */
export const addingOfOne = (
  session: Session,
  { laneId: lane, row }: NewRow,
  { acceptedAt, caps = [], hint }: Adding,
): AddJob => ({
  ...row,
  lane,
  cap: caps[0]?.cap ?? null,
  acceptedAt,
  briefMs: String(briefLockTimeoutMs(session)),
  channel: hint?.channel ?? null,
  payload: hint?.payload ?? null,
})

/** Returns the parameters that add these jobs. */
export const addingOf = (
  session: Session,
  rows: ReadonlyArray<NewRow>,
  { acceptedAt, caps = [], hint, own }: Adding,
): AddJobs => {
  const briefMs = String(briefLockTimeoutMs(session))
  return {
    ...packRows(rows),
    wanted: JSON.stringify(wantedLanes(rows)),
    caps: caps.length === 0 ? null : JSON.stringify(caps),
    acceptedAt,
    own,
    patientMs: rows.length > 1 ? String(session.lockTimeoutMs) : briefMs,
    briefMs,
    channel: hint?.channel ?? null,
    payload: hint?.payload ?? null,
  }
}

/**
 * Adds jobs. Returns the time and the jobs that were not added because their keys are bound. Waits for
 * transactions that are about to bind one of these keys.
 */
export const addJobs = async (session: Session, rows: ReadonlyArray<NewRow>, adding: Adding): Promise<Added> => {
  const [row] = rows
  if (rows.length === 1 && row !== undefined && adding.own) {
    const answer = await session.get(addJobStatement, addingOfOne(session, row, adding))
    return addedOf(answer?.accepted ?? null)
  }
  const added = await session.get(addJobsStatement, addingOf(session, rows, adding))
  if (added === undefined) throw new TypeError("add_jobs returned no row")
  return added
}

/** The lanes and times of rows, for callers that lower `next_at` themselves. `since`: the time at which rows built for 0 are accepted. */
export const claimableRows = (rows: ReadonlyArray<NewRow>, since: number = 0): ReadonlyArray<MayBeClaimable> =>
  rows.map(({ claimableAt, laneId }) => ({ laneId, claimableAt: since + claimableAt }))

/** Gives the uploads of retried jobs to their retries. */
export const detachRetried = (session: Session, rows: ReadonlyArray<NewRow>): Promise<number> =>
  detachUploads(
    session,
    rows.flatMap(({ retried }) => retried ?? []),
  )

/** Tells the sweep about uploads that jobs consumed. */
export const consumeUploads = (session: Session, rows: ReadonlyArray<NewRow>): Promise<number> =>
  session.runBatch(
    leaveSweep,
    rows.flatMap(({ row: { upload_id: id } }) => (id === null ? [] : [{ id }])),
    {},
  )

/** Writes accepted jobs in one flight, if their lanes are known. Throws `Superseded` where another transaction has bound a key meanwhile. */
export const insertJobs = async (
  tx: Transaction,
  accepted: ReadonlyArray<Accepted>,
  lanes: Map<string, number>,
): Promise<void> => {
  if (accepted.length === 0) return
  await makeLanes(
    tx,
    accepted.map(({ item }) => item),
    lanes,
  )
  const rows = rowsOf(accepted, lanes)
  const [, added] = await Promise.all([
    detachRetried(tx, rows),
    addJobs(tx, rows, { own: true, acceptedAt: tx.now }),
    consumeUploads(tx, rows),
  ])
  // When the step starts over, it finds a replay, or that a lane is missing.
  if (added.accepted === null || added.unbound !== null) throw new Superseded()
  await writeLabels(tx, rows)
}
