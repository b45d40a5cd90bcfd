import { sql } from "kysely"
import type { SpendOwner } from "@kiln/core/domain"
import { type BoundKey, repeatOf } from "@kiln/core/rules"
import type { CreateOutcome, NewJob } from "@kiln/core/ports"
import { boundKeys, replaces } from "../jobs/replaceJobs.ts"
import { Session, type Wire } from "../connection/Session.ts"
import { Superseded } from "../connection/postgresErrors.ts"
import { type Judged, judgeJobs, readItems, withoutScope } from "../jobs/createJobs.ts"
import { cappedOwners, noSpending, type ReadSpending } from "../spending.ts"
import { addingOf, addJobs, keyName, type NewRow } from "../jobs/insertJobs.ts"
import { detachRetried } from "../jobs/retriedJobs.ts"
import { inSchema, query, statement } from "../Statement.ts"
import { readTime } from "../transactionsOf.ts"
import { inheritScopes, leaveScopesOf } from "../jobs/labels.ts"
import { findLanes, laneName, laneOf, type Lanes, type MayBeClaimable } from "../jobs/lanes.ts"
import type { Addable } from "../jobs/RememberedFacts.ts"
import { workChannel } from "../wakeUp/Listener.ts"
import type { CallerConnection } from "./CallerConnection.ts"
import { usableSession } from "../connection/sessionChecks.ts"

/** Maximum number of tries when keys are bound by others and become free again. */
const mostTries = 20

/**
 * Adds the jobs in a caller's transaction and returns the keys that another transaction bound first, with their jobs.
 * Nothing is rolled back for it: the caller may have written on this connection meanwhile, and was told that it did.
 *
 * Throws `Superseded` where a failed job has let go of its upload by then, which only a rollback can undo.
 */
const addInCallers = async (
  session: Session,
  acceptedAt: number,
  rows: ReadonlyArray<NewRow>,
  lanes: Lanes,
): Promise<ReadonlyMap<string, BoundKey>> => {
  const ours = new Set(rows.map(({ row }) => row.id))
  const theirs = new Map<string, BoundKey>()
  let left = rows
  for (let tries = 0; tries < mostTries; tries++) {
    await detachRetried(session, left)
    const refused = new Set((await addJobs(session, left, lanes, { own: false, acceptedAt })).refused)
    left = left.filter((_, index) => refused.has(index + 1))
    if (left.length === 0) return theirs
    const bound = new Set<string>()
    const items = left.map(({ item }) => item)
    for (const key of await boundKeys(session, items)) {
      bound.add(keyName(key))
      if (!ours.has(key.job.id)) theirs.set(keyName(key), key)
    }
    if (left.some(({ item, retried }) => retried?.uploadId != null && theirs.has(keyName(item)))) break
    // A key that is bound neither here nor there belonged to a job that has been deleted since.
    left = left.filter(({ item }) => !bound.has(keyName(item)))
    if (left.length === 0) return theirs
  }
  throw new Superseded()
}

const thisTransaction = statement(() => query.selectNoFrom(sql<string>`pg_current_xact_id()::text`.as("transaction")))

/** The snapshot of the caller's transaction is older than a lane. */
export class LaneNotSeen extends Error {
  override readonly name = "LaneNotSeen"
}

const requireLanes = (accepted: ReadonlyArray<NewRow>, lanes: Lanes): void => {
  if (accepted.every(({ item }) => lanes.has(laneName(item)))) return
  throw new LaneNotSeen(
    "the transaction's snapshot is older than the first job of this project and kind; retry the transaction",
  )
}

/** Work on a connection of kiln's, committed before the caller's transaction ends, because others would wait for it. */
export interface Meanwhile {
  /** Lowers the lanes' `next_at`, after the jobs were added in the caller's transaction, which keeps `settle_lanes` away from the lanes. */
  readonly lower: (rows: ReadonlyArray<MayBeClaimable>) => Promise<void>
  /**
   * Judges with what counts against the caps of these owners, and reserves for a transaction of the caller's. The reservations count
   * until that transaction has ended without the jobs.
   */
  readonly reserve: (
    owners: ReadonlyArray<SpendOwner>,
    transaction: string,
    judge: (spending: ReadSpending) => Judged,
  ) => Promise<Judged>
  readonly unreserve: (entries: ReadonlyArray<string>) => Promise<void>
}

/** Judges and adds jobs in a caller's transaction. The lanes exist. */
export const createInCallers = async (
  session: Session,
  items: ReadonlyArray<NewJob>,
  meanwhile: Meanwhile,
): Promise<ReadonlyArray<CreateOutcome>> => {
  if (items.some(replaces)) throw new TypeError("a request cannot be replaced in a transaction of a caller's")
  const now = await readTime(session)
  const lanes = await findLanes(session, items)
  const facts = await readItems(session, items, false)
  const judge = (spending: ReadSpending) => judgeJobs(now, items, { ...facts, spending })
  const owners = cappedOwners(items)
  const {
    accepted: rows,
    outcomes,
    reservations,
  } = owners.length === 0
    ? judge(noSpending)
    : await meanwhile.reserve(owners, (await session.get(thisTransaction, {}))?.transaction ?? "", judge)
  requireLanes(rows, lanes)
  const theirs = rows.length === 0 ? new Map<string, BoundKey>() : await addInCallers(session, now, rows, lanes)
  const written = rows.filter(({ item }) => !theirs.has(keyName(item)))
  const ids = new Set<string>(written.map(({ row }) => row.id))
  const unused = reservations.flatMap(({ entry }) => (ids.has(entry) ? [] : [entry]))
  if (unused.length > 0) await meanwhile.unreserve(unused)
  if (written.length > 0) {
    await inheritScopes(session, written)
    await meanwhile.lower(claimableRows(written, lanes, now))
  }
  const answers = outcomes.map((outcome, index) => {
    const item = items[index]
    const existing = item && theirs.get(keyName(item))
    return item && existing ? repeatOf(existing, item) : outcome
  })
  await leaveScopesOf(session, withoutScope(items, answers))
  return answers
}

/**
 * Identifies the tables of a session, as `create_callers_jobs` does: the server by its start time, the database and the table by their
 * oids. Distinguishes a copy of the database on another server. Needs no privileges and never fails. Without such a table it returns
 * a different value.
 */
export const tablesOfSession = sql<string>`concat_ws(' ',
      extract(epoch from pg_catalog.pg_postmaster_start_time()),
      (select oid from pg_catalog.pg_database where datname = current_database()),
      (select oid from pg_catalog.pg_class where relname = 'jobs' and relnamespace =
        (select oid from pg_catalog.pg_namespace where concat('"', nspname, '".') = '"kiln".')))`

/** Not the mark of any process, so that this one receives the notification too, when the caller commits. */
export const fromCaller = "caller"

/** The reply of `create_callers_jobs`; `Undecided` where the facts have to be read. */
export type AddedInOneStatement =
  | { readonly _tag: "Added"; readonly acceptedAt: number; readonly isLater: boolean }
  | { readonly _tag: "Undecided"; readonly why: Why | "outside" }

type Why = "busy" | "elsewhere" | "lanes" | "board" | "full" | "capped" | "refused" | "snapshot" | "session"

type Answer =
  | { readonly answer: "added"; readonly accepted: number; readonly isLater: boolean }
  | {
      readonly answer: "failed"
      readonly code: string
      readonly message: string
      readonly detail: string
      readonly where: string
    }
  | { readonly answer: Why }

const text = `SELECT CASE WHEN ${usableSession} THEN "kiln".create_callers_jobs($1::text, $2::text, $3::text, $4::text, $5::text, $6::text,
  $7::text, $8::text, $9::text, $10::text, $11::text, $12::text) ELSE '{"answer":"session"}' END AS answer`

/** Adds all jobs in the caller's transaction or none, in one round trip. Throws the server's error. */
export const addInOneStatement = async (
  connection: CallerConnection,
  wire: Wire,
  {
    jobs: { compared, lanes, rows },
    notifications,
    tables,
  }: {
    readonly jobs: Addable
    /** The place of the tables. */
    readonly tables: string
    readonly notifications: boolean
  },
): Promise<AddedInOneStatement> => {
  const hint = notifications ? { channel: workChannel(wire), payload: fromCaller } : undefined
  const adding = addingOf(new Session(connection, wire), rows, lanes, { own: false, compared, hint })
  const { board, caps, channel, consumed, items, labels, payload, scopes, servedUntil, shared, wanted } = adding
  const until = servedUntil === null ? null : String(servedUntil)
  const values = [tables, items, shared, wanted, caps, labels, scopes, consumed, board, until, channel, payload]
  const told = JSON.parse(await connection.answer(inSchema(text, wire.schema), values)) as Answer
  if (told.answer === "added") return { _tag: "Added", acceptedAt: told.accepted, isLater: told.isLater }
  if (told.answer !== "failed") return { _tag: "Undecided", why: told.answer }
  // The caller has made constraints immediate, so that a transaction cannot be told from its absence.
  if (told.code === "25P01") return { _tag: "Undecided", why: "outside" }
  if (told.code === "KILN2") return { _tag: "Undecided", why: "refused" }
  const { answer: _, message, ...fields } = told
  throw Object.assign(new Error(message), { severity: "ERROR", ...fields })
}

/** The lanes of rows and when they become claimable: a caller lowers `next_at` itself. */
export const claimableRows = (
  rows: ReadonlyArray<NewRow>,
  lanes: Lanes,
  acceptedAt: number,
): ReadonlyArray<MayBeClaimable> =>
  rows.map(({ item, row }) => ({ laneId: laneOf(lanes, item), claimableAt: acceptedAt + row.delay_ms }))
