import { sql } from "kysely"
import type { JobMode } from "@kiln/core/domain"
import type { Runnable } from "@kiln/core/ports"
import type { LaneUpdate } from "./LanePositions.ts"
import type { Session } from "../connection/Session.ts"
import { firstRoomAt, fullNames, kindIsOpen, type Taken } from "./takeJobs.ts"
import { batchStatement, type Given, integer, query, statement, text } from "../Statement.ts"

/** Finds the lane with the earliest `next_at` of some kinds. */
const earliestLane = batchStatement(
  { kind: text(), kindVersion: integer(), mode: text<JobMode>() },
  (item, given: Given<{ fullProjects: ReadonlyArray<string>; without: ReadonlyArray<number> }>) =>
    query
      .selectFrom(item)
      .innerJoinLateral(
        () =>
          query
            .selectFrom("lanes")
            .select(["lanes.id", "lanes.next_at as nextAt"])
            .whereRef("lanes.kind", "=", sql`${sql.ref("item.kind")}`)
            .whereRef("lanes.kind_version", "=", sql`${sql.ref("item.kindVersion")}`)
            .whereRef("lanes.mode", "=", sql`${sql.ref("item.mode")}`)
            .where("lanes.next_at", ">=", 0)
            .where(sql<boolean>`(lanes.mode || ' ' || lanes.project_id) <> all(${given.fullProjects}::text[])`)
            .where(sql<boolean>`lanes.id <> all(${given.without}::bigint[])`)
            .orderBy("lanes.next_at")
            .limit(1)
            .$narrowType<{ nextAt: number }>()
            .as("lane"),
        (join) => join.onTrue(),
      )
      .select(["lane.id", "lane.nextAt", sql<number>`"kiln".store_time()`.as("now")])
      .orderBy("lane.nextAt")
      .limit(1),
)

/** Saves positions of lanes after a claim was committed. */
const serveLanes = statement(
  (
    given: Given<{
      laneIds: ReadonlyArray<number>
      starts: ReadonlyArray<number>
      counts: ReadonlyArray<number>
      clock: number
    }>,
  ) =>
    query.selectNoFrom(
      sql`"kiln".serve_lanes(${given.laneIds}::bigint[], ${given.starts}::bigint[], ${given.counts}::bigint[], ${given.clock}::bigint)`.as(
        "served",
      ),
    ),
)

/** Raises `next_at` of lanes to their first job; returns the lanes that jobs are being added to. */
const settleLanes = statement((given: Given<{ laneIds: ReadonlyArray<number> }>) =>
  query.selectNoFrom(sql<number>`"kiln".settle_lanes(${given.laneIds}::bigint[])`.as("laneId")),
)

/**
 * Milliseconds until empty lanes are searched again while jobs are being added to them. A caller's transaction may stay open for
 * minutes; its commit sends a hint.
 */
const beingAddedToMs = 1_000

/** Maximum number of lanes that one claim corrects, so that claims stay short after a burst in many lanes. */
const maxCorrections = 16

/** Lanes to skip, and lanes whose `next_at` was just corrected. */
interface Known {
  readonly fullProjects: ReadonlyArray<string>
  readonly without: ReadonlyArray<number>
  readonly corrected: ReadonlySet<number>
}

/** Finds the earliest lane and corrects its `next_at` first: its job may have ended, or its lease may have been extended. */
const correctedEarliest = async (session: Session, runnable: ReadonlyArray<Runnable>, known: Known) => {
  const { fullProjects, without } = known
  const corrected = new Set(known.corrected)
  for (let corrections = 0; ; corrections += 1) {
    const [earliest] = await session.batch(earliestLane, runnable, { fullProjects, without })
    if (earliest === undefined || corrections === maxCorrections || corrected.has(earliest.id)) return earliest
    corrected.add(earliest.id)
    await session.all(settleLanes, { laneIds: [earliest.id] })
  }
}

/** Saves the positions of lanes. */
export const saveTurns = async (
  session: Session,
  { clock, served }: Pick<LaneUpdate, "served" | "clock">,
): Promise<void> => {
  if (served.length === 0) return
  await session.all(serveLanes, {
    laneIds: served.map(([id]) => id),
    starts: served.map(([, { start }]) => start),
    counts: served.map(([, { count }]) => count),
    clock,
  })
}

/** Saves the positions of lanes and raises `next_at` of lanes that are due. */
export const saveLanes = async (session: Session, due: LaneUpdate): Promise<void> => {
  await Promise.all([
    saveTurns(session, due),
    due.settle.length > 0 ? session.all(settleLanes, { laneIds: due.settle }) : undefined,
  ])
}

/**
 * Saves what is due after a claim and returns the milliseconds until a lane may have claimable jobs. Lanes at their limit were
 * not searched; they count from when there is room.
 */
export const settleAfter = async (
  session: Session,
  runnable: ReadonlyArray<Runnable>,
  taken: Taken,
  due: LaneUpdate,
): Promise<number | undefined> => {
  const { claimedAt, exhausted, nextInMs, visited } = taken
  const open = runnable.filter((item) => kindIsOpen(taken, item))
  const settled = new Set(due.settle)
  const known: Known = {
    fullProjects: fullNames(taken),
    without: due.unsettled,
    // Lanes with more jobs, and lanes that were just corrected.
    corrected: new Set(visited.filter((id) => settled.has(id) || !exhausted.has(id))),
  }
  const [, unsettled, first] = await Promise.all([
    saveTurns(session, due),
    due.settle.length > 0 ? session.all(settleLanes, { laneIds: due.settle }) : [],
    correctedEarliest(session, open, known),
  ])
  const addedTo = unsettled.flatMap(({ laneId }) => (exhausted.has(laneId) ? [laneId] : []))
  const without = [...known.without, ...addedTo]
  const earliest = addedTo.length === 0 ? first : await correctedEarliest(session, open, { ...known, without })
  const now = earliest?.now ?? claimedAt
  // The bounds of these lanes do not say when their next job, which may be delayed, is due. The claim saw it.
  const inUnsettledMs = without.length === 0 ? Infinity : (nextInMs ?? Infinity)
  const inMs = Math.min(
    inUnsettledMs,
    (earliest?.nextAt ?? Infinity) - now,
    firstRoomAt(taken, runnable) - now,
    due.againInMs ?? Infinity,
    addedTo.length === 0 ? Infinity : beingAddedToMs,
  )
  return inMs === Infinity ? undefined : Math.max(0, inMs)
}
