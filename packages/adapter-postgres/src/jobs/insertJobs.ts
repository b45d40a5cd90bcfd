import { type AliasedRawBuilder, sql } from "kysely"
import type { Job, JobId, SpendOwner } from "@kiln/core/domain"
import { labelsOf, rankOf } from "@kiln/core/rules"
import type { NewJob } from "@kiln/core/ports"
import { decodeObject } from "@kiln/sql-store"
import { briefLockTimeoutMs, type Session } from "../connection/Session.ts"
import { type Given, query, statement } from "../Statement.ts"
import { laneOf, type Lanes } from "./lanes.ts"
import type { RetriedJob } from "./retriedJobs.ts"

/** The name of an idempotency key within a process. */
export const keyName = ({ idempotencyKey, keyId }: Pick<NewJob, "keyId" | "idempotencyKey">) =>
  `${keyId} ${idempotencyKey}`

/** Returns the job as later readers will see it, with its JSON decoded again. */
export const asStored = (job: Job): Job => ({
  ...job,
  metadata: decodeObject(JSON.stringify(job.metadata), job.id),
  request: decodeObject(JSON.stringify(job.request), job.id),
})

/** Returns an accepted job as it is written. */
export const newRow = (item: NewJob, job: Job, priceId: number | null, retried: RetriedJob | undefined) => {
  const { claimableAt, createdAt, deadlineAt, phaseStartedAt, queueLimitMs, runLimitMs } = job
  if (claimableAt === null) throw new TypeError("a new job lacks its times")
  // The trigger that gives a job its place in the queue derives these times from the delay.
  if (phaseStartedAt !== claimableAt || deadlineAt !== claimableAt + queueLimitMs)
    throw new TypeError("a new job waits from the end of its delay")
  return {
    item,
    retried,
    row: {
      id: job.id,
      project_id: job.projectId,
      key_id: job.keyId,
      mode: job.mode,
      kind: job.kind,
      kind_version: job.kindVersion,
      upload_id: job.uploadId,
      priority: rankOf(job.priority),
      kept: JSON.stringify(job.metadata),
      idempotency_key: job.idempotencyKey,
      fingerprint: job.fingerprint,
      price_id: priceId,
      queue_limit_ms: queueLimitMs,
      run_limit_ms: runLimitMs,
      delay_ms: claimableAt - createdAt,
      request: JSON.stringify(item.request),
    },
  }
}

/** An accepted job, ready to be written. Its times follow from when it is accepted. */
export type NewRow = ReturnType<typeof newRow>

type Row = NewRow["row"]

/** The columns that are equal for most jobs of a call. */
const sharedNames = [
  "project_id",
  "key_id",
  "mode",
  "kind",
  "kind_version",
  "priority",
  "price_id",
  "queue_limit_ms",
  "run_limit_ms",
  "delay_ms",
] as const satisfies ReadonlyArray<keyof Row>

const sharedOf = (row: Row) => Object.fromEntries(sharedNames.map((name) => [name, row[name]]))

const areAlike = (a: Row, b: Row): boolean => {
  for (const name of sharedNames) if (a[name] !== b[name]) return false
  return true
}

/**
 * The jobs as `accept_jobs` takes them: what several have in common is sent once, and each job says where (from 1). Reading fields
 * is a good part of what a job costs the server.
 */
const packRows = (rows: ReadonlyArray<NewRow>): { readonly items: string; readonly shared: string } => {
  const shared: Array<ReturnType<typeof sharedOf>> = []
  const places = new Map<string, number>()
  let last: Row | undefined
  let place = 0

  const placeOf = (row: Row): number => {
    const previous = last
    last = row
    if (previous !== undefined && areAlike(previous, row)) return place
    const fields = sharedOf(row)
    const name = JSON.stringify(fields)
    const known = places.get(name)
    if (known !== undefined) return known
    places.set(name, shared.push(fields))
    return shared.length
  }

  const items = rows.map(({ row }) => {
    place = placeOf(row)
    return {
      of: place,
      id: row.id,
      idempotency_key: row.idempotency_key,
      fingerprint: row.fingerprint,
      request: row.request,
      ...(row.kept !== "{}" && { kept: row.kept }),
      ...(row.upload_id !== null && { upload_id: row.upload_id }),
    }
  })
  return { items: JSON.stringify(items), shared: JSON.stringify(shared) }
}

/** How many unfinished jobs a project may have, and how many are added to it. */
export interface CapCheck {
  readonly project_id: string
  readonly cap: number
  readonly adding: number
  /** As in `Counted`; `null` where nothing is known. */
  readonly counted: number | null
  readonly counted_to: number | null
}

/** An upper bound: that many jobs of a project, among those with a number up to `counted_to`, are unfinished at most. */
export interface Counted {
  readonly project_id: string
  readonly counted: number
  readonly counted_to: number
}

/** The maximum cost of a new job, which counts against the cap of this owner if there is one. */
export interface Cost {
  readonly owner: SpendOwner
  readonly id: JobId
  readonly currency: string
  /** `null` if it is not bounded. */
  readonly amount: string | null
}

/** The reply of `accept_jobs`. */
export interface Added {
  /** Store time, Unix milliseconds; `null` where nothing was added. */
  readonly accepted: number | null
  /** The places, counted from 1, of the jobs that were not added: their key is bound, or their scope or upload is not free. */
  readonly refused: ReadonlyArray<number> | null
  /** The reason why nothing was added: a fact differs, or has to be counted under locks. */
  readonly reason: "lanes" | "board" | "full" | "capped" | null
  /** The projects whose jobs were counted. */
  readonly counts: ReadonlyArray<Counted> | null
}

/** The parameters of `accept_jobs`. */
export type CreateJobs = {
  items: string
  shared: string
  wanted: string
  caps: string | null
  costs: string | null
  labels: string | null
  scopes: string | null
  consumed: string | null
  board: string | null
  servedUntil: number | null
  acceptedAt: number | null
  own: boolean
  patientMs: string
  briefMs: string
  channel: string | null
  payload: string | null
}

/** The parameters of `accept_job`. */
export type CreateJob = Omit<NewRow["row"], "upload_id"> & {
  labels: string | null
  lane: number
  cap: number | null
  counted: number | null
  countedTo: number | null
  board: string | null
  servedUntil: number | null
  acceptedAt: number | null
  briefMs: string
  channel: string | null
  payload: string | null
}

/** The reply of `accept_job`. */
export interface AddedOne {
  readonly accepted: number | null
  readonly unfinished: number | null
  readonly unfinished_to: number | null
}

/** Calls `accept_job`, which is defined in the migration. */
export const createJobCall = (given: Given<CreateJob>): AliasedRawBuilder<AddedOne, "added"> =>
  sql<AddedOne>`"kiln".accept_job(${given.id}::text, ${given.project_id}::text, ${given.key_id}::text, ${given.mode}::text,
    ${given.kind}::text, ${given.kind_version}::bigint, ${given.priority}::smallint, ${given.kept}::text,
    ${given.idempotency_key}::text, ${given.fingerprint}::text, ${given.price_id}::bigint, ${given.queue_limit_ms}::bigint,
    ${given.run_limit_ms}::bigint, ${given.delay_ms}::bigint, ${given.request}::text, ${given.labels}::json, ${given.lane}::bigint,
    ${given.cap}::bigint, ${given.counted}::bigint, ${given.countedTo}::bigint, ${given.board}::text, ${given.servedUntil}::bigint, ${given.acceptedAt}::bigint, ${given.briefMs}::text,
    ${given.channel}::text, ${given.payload}::text)`.as<"added">(sql`added`)

const createJobStatement = statement((given: Given<CreateJob>) =>
  query.selectFrom(createJobCall(given)).select(["added.accepted", "added.unfinished", "added.unfinished_to"]),
)

/** The meanings of the codes of `accept_job`. */
const reasons: Readonly<Record<string, Added["reason"]>> = { "-2": "board", "-3": "capped", "-4": "full" }

/** Returns the reply of `accept_job` as that of `accept_jobs`. */
export const addedOf = (project_id: string, answer: AddedOne | undefined): Added => {
  const code = answer?.accepted ?? null
  const { unfinished: counted = null, unfinished_to: counted_to = null } = answer ?? {}
  const counts = counted === null || counted_to === null ? null : [{ project_id, counted, counted_to }]
  if (code === null) return { accepted: null, refused: null, reason: "lanes", counts }
  if (code >= 0) return { accepted: code, refused: null, reason: null, counts }
  const reason = reasons[code]
  return reason == null
    ? { accepted: 0, refused: [1], reason: null, counts }
    : { accepted: null, refused: null, reason, counts }
}

/** Calls `accept_jobs`, which is defined in the migration. */
export const createJobsCall = (given: Given<CreateJobs>): AliasedRawBuilder<Added, "added"> =>
  sql<Added>`"kiln".accept_jobs(${given.items}::json, ${given.shared}::json, ${given.wanted}::json, ${given.caps}::json,
    ${given.costs}::json, ${given.labels}::json, ${given.scopes}::json, ${given.consumed}::json, ${given.board}::text, ${given.servedUntil}::bigint,
    ${given.acceptedAt}::bigint, ${given.own}::boolean, ${given.patientMs}::text, ${given.briefMs}::text,
    ${given.channel}::text, ${given.payload}::text)`.as<"added">(sql`added`)

const createJobsStatement = statement((given: Given<CreateJobs>) =>
  query.selectFrom(createJobsCall(given)).select(["added.accepted", "added.refused", "added.reason", "added.counts"]),
)

/** The lanes of these rows, each once, in the order in which lanes are locked. */
const wantedLanes = (rows: ReadonlyArray<NewRow>, known: Lanes) => {
  const lanes = new Map<
    number,
    Pick<NewRow["row"], "project_id" | "kind" | "kind_version" | "mode" | "delay_ms"> & { id: number }
  >()
  for (const { item, row } of rows) {
    const id = laneOf(known, item)
    const { delay_ms, kind, kind_version, mode, project_id } = row
    const lane = lanes.get(id)
    if (lane === undefined) lanes.set(id, { id, delay_ms, project_id, kind, kind_version, mode })
    else lane.delay_ms = Math.min(lane.delay_ms, delay_ms)
  }
  return [...lanes.values()].sort((a, b) => a.id - b.id)
}

/** The labels by which jobs are found. */
const labelsIn = (rows: ReadonlyArray<NewRow>) =>
  rows.flatMap(({ item: { metadata }, row: { id } }) => labelsOf(metadata).map((label) => ({ id, label })))

/** The scopes of unique jobs. The last job of a scope has it. */
const scopesIn = (rows: ReadonlyArray<NewRow>) => {
  const scopes = new Map<string, { id: string; place: number; scope: string; age_ms: number | null }>()
  for (const [index, { item, row }] of rows.entries()) {
    if (item.unique === undefined) continue
    const { scope, while: duration } = item.unique
    const age_ms = typeof duration === "number" ? Math.ceil(duration) : null
    scopes.set(scope, { id: row.id, place: index + 1, scope, age_ms })
  }
  return [...scopes.values()]
}

/** The uploads that jobs consume. */
const consumedIn = (rows: ReadonlyArray<NewRow>) =>
  rows.flatMap(({ row: { id: job, key_id, mode, project_id, upload_id: id } }, index) =>
    id === null ? [] : [{ job, place: index + 1, id, project_id, key_id, mode }],
  )

const listOrNull = (list: ReadonlyArray<unknown>): string | null => (list.length === 0 ? null : JSON.stringify(list))

/** The facts that decided, which the statement compares. */
export interface Compared {
  readonly caps: ReadonlyArray<CapCheck>
  /** For owners that had a spend cap when it was last read. */
  readonly costs: ReadonlyArray<Cost>
  /** The version of the board; `null` if no job has a gate. */
  readonly board: string | null
  /** The store time until which live workers count as there; `null` if no job needs one. */
  readonly servedUntil: number | null
}

/** How jobs are added. */
export type Adding = {
  /** False in a transaction of a caller's. */
  readonly own: boolean
  /** A notification to send with the commit. */
  readonly hint?: { readonly channel: string; readonly payload: string } | undefined
} & (
  | {
      /** The time at which everything was decided under locks. */
      readonly acceptedAt: number
    }
  | { readonly compared: Compared }
)

const factsOf = (adding: Adding) =>
  "compared" in adding
    ? { ...adding.compared, acceptedAt: null }
    : { caps: [], costs: [], board: null, servedUntil: null, acceptedAt: adding.acceptedAt }

/** Returns the parameters that add a job with neither a scope nor an upload, outside of a caller's transaction. */
const addingOfOne = (session: Session, { item, row }: NewRow, lanes: Lanes, adding: Adding): CreateJob => {
  const { acceptedAt, board, caps, servedUntil } = factsOf(adding)
  const { upload_id: _, ...fields } = row
  return {
    ...fields,
    labels: listOrNull(labelsOf(item.metadata)),
    lane: laneOf(lanes, item),
    cap: caps[0]?.cap ?? null,
    counted: caps[0]?.counted ?? null,
    countedTo: caps[0]?.counted_to ?? null,
    board,
    servedUntil,
    acceptedAt,
    briefMs: String(briefLockTimeoutMs(session)),
    channel: adding.hint?.channel ?? null,
    payload: adding.hint?.payload ?? null,
  }
}

/** Returns the parameters that add these jobs. */
export const addingOf = (session: Session, rows: ReadonlyArray<NewRow>, lanes: Lanes, adding: Adding): CreateJobs => {
  const { acceptedAt, board, caps, costs, servedUntil } = factsOf(adding)
  const briefMs = String(briefLockTimeoutMs(session))
  return {
    ...packRows(rows),
    wanted: JSON.stringify(wantedLanes(rows, lanes)),
    caps: listOrNull(caps),
    costs: listOrNull(costs),
    labels: listOrNull(labelsIn(rows)),
    scopes: listOrNull(scopesIn(rows)),
    consumed: listOrNull(consumedIn(rows)),
    board,
    servedUntil,
    acceptedAt,
    own: adding.own,
    patientMs: rows.length > 1 ? String(session.lockTimeoutMs) : briefMs,
    briefMs,
    channel: adding.hint?.channel ?? null,
    payload: adding.hint?.payload ?? null,
  }
}

/**
 * Returns the parameters of `accept_job` where that can add the rows, or those of `accept_jobs`. A submission of one job takes 0.55 ms with
 * the one and 1.03 ms with the other, which reads its job, lane and cap from lists.
 */
export const parametersOf = (
  session: Session,
  rows: ReadonlyArray<NewRow>,
  lanes: Lanes,
  adding: Adding,
): { readonly one: CreateJob } | { readonly list: CreateJobs } => {
  const [row] = rows
  const isOne =
    rows.length === 1 &&
    adding.own &&
    row?.item.unique === undefined &&
    row?.row.upload_id === null &&
    factsOf(adding).costs.length === 0
  return isOne ? { one: addingOfOne(session, row, lanes, adding) } : { list: addingOf(session, rows, lanes, adding) }
}

/** Adds jobs, with their labels, scopes and uploads. Waits for transactions that are about to bind one of their keys. */
export const addJobs = async (
  session: Session,
  rows: ReadonlyArray<NewRow>,
  lanes: Lanes,
  adding: Adding,
): Promise<Added> => {
  const given = parametersOf(session, rows, lanes, adding)
  if ("one" in given) return addedOf(given.one.project_id, await session.get(createJobStatement, given.one))
  const added = await session.get(createJobsStatement, given.list)
  if (added === undefined) throw new TypeError("accept_jobs returned no row")
  return added
}
