import { sql } from "kysely"
import type { JobMode } from "@kiln/core/domain"
import type { Runnable } from "@kiln/core/ports"
import type { Due } from "./LanePositions.ts"
import type { Session } from "../Session.ts"
import type { Claimed } from "./claimJobs.ts"
import { fullProjectNames } from "./laneOrder.ts"
import { batchStatement, type Given, query, statement } from "../Statement.ts"

/** The earliest lane of some kinds; by itself it says when to come back, and one that is idle has no row at all. */
export const earliestLane = batchStatement<
  { kind: string; kindVersion: number; mode: JobMode },
  { fullProjects: ReadonlyArray<string>; without: ReadonlyArray<number> },
  { readonly id: number; readonly nextAt: number; readonly now: number }
>({ kind: "text", kindVersion: "bigint", mode: "text" }, (item, given) =>
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

/** Where lanes stand after a claim. What is not yet to be seen by others is not served: the claim is committed. */
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

/** Sets lanes to the time when each has something, and so out of the way until then; returns those that are being added to. */
const settleLanes = statement((given: Given<{ laneIds: ReadonlyArray<number> }>) =>
  query.selectNoFrom(sql<number>`"kiln".settle_lanes(${given.laneIds}::bigint[])`.as("laneId")),
)

/**
 * Milliseconds until lanes are looked into again that were found empty while something is being added to them. A transaction
 * of a caller's may stay open for minutes; when it commits, a hint says so.
 */
const beingAddedToMs = 1_000

/** How many lanes one claim corrects at most, so that a claim stays short after a burst in many lanes. */
const maxCorrections = 16

/** Lanes the earliest is not looked for among, and those of which it was just found out when they have something. */
interface Known {
  readonly fullProjects: ReadonlyArray<string>
  readonly without: ReadonlyArray<number>
  readonly believed: ReadonlySet<number>
}

const nothingKnown: Known = { fullProjects: [], without: [], believed: new Set() }

/** The earliest lane. It is looked at before it is believed: its job may have ended meanwhile, or its lease may have been extended. */
const believedEarliest = async (session: Session, runnable: ReadonlyArray<Runnable>, known: Known) => {
  const { fullProjects, without } = known
  const believed = new Set(known.believed)
  for (let corrections = 0; ; corrections += 1) {
    const [earliest] = await session.batch(earliestLane, runnable, { fullProjects, without })
    if (earliest === undefined || corrections === maxCorrections || believed.has(earliest.id)) return earliest
    believed.add(earliest.id)
    await session.all(settleLanes, { laneIds: [earliest.id] })
  }
}

/** Whether there is anything to claim now, or when there may be. One statement, where nothing is in the queue. */
export const lookForWork = async (
  session: Session,
  runnable: ReadonlyArray<Runnable>,
): Promise<{ readonly now: boolean; readonly nextInMs: number | undefined }> => {
  const [earliest] = await session.batch(earliestLane, runnable, nothingKnown)
  if (earliest !== undefined && earliest.nextAt <= earliest.now) return { now: true, nextInMs: 0 }
  const believed = earliest && (await believedEarliest(session, runnable, nothingKnown))
  if (believed === undefined) return { now: false, nextInMs: undefined }
  return { now: believed.nextAt <= believed.now, nextInMs: Math.max(0, believed.nextAt - believed.now) }
}

/** Notes where lanes stand. */
export const noteTurns = async (session: Session, { clock, served }: Pick<Due, "served" | "clock">): Promise<void> => {
  if (served.length === 0) return
  await session.all(serveLanes, {
    laneIds: served.map(([id]) => id),
    starts: served.map(([, { start }]) => start),
    counts: served.map(([, { count }]) => count),
    clock,
  })
}

/**
 * Notes what is due after a claim, and returns the milliseconds until one of all lanes may have something. Lanes at their
 * limit were not looked into; they come when there is room.
 */
export const settleAfter = async (
  session: Session,
  runnable: ReadonlyArray<Runnable>,
  { claimedAt, exhausted, inHand, visited }: Claimed,
  due: Due,
): Promise<number | undefined> => {
  const open = runnable.filter((item) => !inHand.kindIsFull(item))
  const settled = new Set(due.settle)
  const known: Known = {
    fullProjects: fullProjectNames(inHand),
    without: due.unsettled,
    // What has more to give, and what was just set.
    believed: new Set(visited.filter((id) => settled.has(id) || !exhausted.has(id))),
  }
  const [, unsettled, first] = await Promise.all([
    noteTurns(session, due),
    due.settle.length > 0 ? session.all(settleLanes, { laneIds: due.settle }) : [],
    believedEarliest(session, open, known),
  ])
  const addedTo = unsettled.flatMap(({ laneId }) => (exhausted.has(laneId) ? [laneId] : []))
  const without = [...known.without, ...addedTo]
  const earliest = addedTo.length === 0 ? first : await believedEarliest(session, open, { ...known, without })
  const now = earliest?.now ?? claimedAt
  const inMs = Math.min(
    (earliest?.nextAt ?? Infinity) - now,
    inHand.firstRoomAt(runnable) - now,
    due.againInMs ?? Infinity,
    addedTo.length === 0 ? Infinity : beingAddedToMs,
  )
  return inMs === Infinity ? undefined : Math.max(0, inMs)
}
