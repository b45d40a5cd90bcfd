import { sql } from "kysely"
import { type Job, repeatOf } from "@kiln/core/domain"
import type { CreateOutcome, NewJob } from "@kiln/core/ports"
import { jobOf, jobsByIdempotencyKey } from "../jobs/jobRow.ts"
import { type Session } from "../Session.ts"
import { Superseded } from "../postgresErrors.ts"
import { judgeJobs, keyName, readItems, withoutScope } from "../jobs/createJobs.ts"
import { reserve } from "../spending.ts"
import { addJobs, claimableRows, consumeUploads, detachRetried } from "../jobs/insertJobs.ts"
import { type Accepted, type NewRow, rowsOf } from "../jobs/newRows.ts"
import { query, statement, storeTime } from "../Statement.ts"
import { leaveScopesOf, writeLabels } from "../jobs/labels.ts"
import { findLanes, laneName, type MayBeClaimable } from "../jobs/lanes.ts"

/** Maximum number of tries when keys are bound by others and become free again. */
const mostTries = 20

/**
 * Adds the jobs in a caller's transaction and returns the jobs whose keys another transaction bound first.
 * Nothing is rolled back for it: the caller may have written on this connection meanwhile, and was told that it did.
 *
 * Throws `Superseded` where a failed job has let go of its upload by then, which only a rollback can undo.
 */
const addInCallers = async (
  session: Session,
  acceptedAt: number,
  rows: ReadonlyArray<NewRow>,
): Promise<ReadonlyMap<string, Job>> => {
  const ours = new Set(rows.map(({ row }) => row.id))
  const theirs = new Map<string, Job>()
  let left = rows
  for (let tries = 0; tries < mostTries; tries++) {
    await detachRetried(session, left)
    const unbound = new Set((await addJobs(session, left, { own: false, acceptedAt })).unbound)
    left = left.filter((_, index) => unbound.has(index + 1))
    if (left.length === 0) return theirs
    const bound = new Set<string>()
    const items = left.map(({ item }) => item)
    for (const row of await session.batch(jobsByIdempotencyKey, items, {})) {
      bound.add(keyName(row))
      if (!ours.has(row.id)) theirs.set(keyName(row), jobOf(row))
    }
    if (left.some(({ item, retried }) => retried?.uploadId != null && theirs.has(keyName(item)))) break
    // A key that is bound neither here nor there belonged to a job that has been deleted since.
    left = left.filter(({ item }) => !bound.has(keyName(item)))
    if (left.length === 0) return theirs
  }
  throw new Superseded()
}

const timeNow = statement(() => query.selectNoFrom(sql<number>`${storeTime}`.as("now")))

/** The snapshot of the caller's transaction is older than a lane. */
export class LaneNotSeen extends Error {
  override readonly name = "LaneNotSeen"
}

const requireLanes = (accepted: ReadonlyArray<Accepted>, lanes: ReadonlyMap<string, number>): void => {
  if (accepted.every(({ item }) => lanes.has(laneName(item)))) return
  throw new LaneNotSeen(
    "the transaction's snapshot is older than the first job of this project and kind; retry the transaction",
  )
}

/**
 * Judges and adds jobs in a caller's transaction. The lanes exist. `lower` lowers their `next_at` on another connection after the
 * jobs were added here, which keeps `settle_lanes` away from the lanes.
 */
export const createInCallers = async (
  session: Session,
  items: ReadonlyArray<NewJob>,
  lower: (rows: ReadonlyArray<MayBeClaimable>) => Promise<void>,
): Promise<ReadonlyArray<CreateOutcome>> => {
  const now = (await session.get(timeNow, {}))?.now ?? 0
  const lanes = await findLanes(session, items)
  const { accepted, outcomes, reservations } = judgeJobs(now, items, await readItems(session, items, false))
  requireLanes(accepted, lanes)
  const rows = rowsOf(accepted, lanes)
  const theirs = rows.length === 0 ? new Map<string, Job>() : await addInCallers(session, now, rows)
  const written = rows.filter(({ item }) => !theirs.has(keyName(item)))
  if (written.length > 0) {
    await consumeUploads(session, written)
    await writeLabels(session, written)
    const ids = new Set<string>(written.map(({ row }) => row.id))
    await reserve(
      session,
      reservations.filter(({ entry }) => ids.has(entry)),
    )
    await lower(claimableRows(written))
  }
  const answers = outcomes.map((outcome, index) => {
    const item = items[index]
    const existing = item && theirs.get(keyName(item))
    return item && existing ? repeatOf(existing, item) : outcome
  })
  await leaveScopesOf(session, withoutScope(items, answers))
  return answers
}
