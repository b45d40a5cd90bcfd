import { sql } from "kysely"
import type { JobsInProgress, ProjectId } from "@kiln/core/domain"
import type { Runnable } from "@kiln/core/ports"
import { select, type Values } from "../columns.ts"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"
import type { LaneTime } from "./laneOrder.ts"
import { ranksIn } from "./lanes.ts"

type RankAt = { readonly laneId: number; readonly rank: number; readonly now: number }

const claimableLater = (given: Given<RankAt>, held: 0 | 1) =>
  query
    .selectFrom("jobs")
    .select(select("jobs", "claimable_at"))
    .where("held", "=", held)
    .where("lane_id", "=", given.laneId)
    .where("priority", "=", given.rank)
    .where("claimable_at", ">", given.now)
    .whereRef("deadline_at", ">", "claimable_at")
    .$narrowType<{ claimableAt: number }>()

/**
 * When a rank of a lane with nothing claimable has something again, whether held or not: one range of the index for each. A job whose
 * deadline comes first never becomes claimable.
 */
export const nextOfRank = statement((given: Given<RankAt>) =>
  claimableLater(given, 0).unionAll(claimableLater(given, 1)).orderBy("claimableAt").limit(1),
)

/** Writes only a change, so that an idle worker's claim is not a commit. */
const setNextAt = statement((given: Given<Values<"lanes", "id" | "next_at">>) =>
  query
    .updateTable("lanes")
    .set({ next_at: given.nextAt })
    .where("id", "=", given.id)
    .where("next_at", "is not", given.nextAt),
)

type Kind = Values<"lanes", "kind" | "kind_version" | "mode">

const lanesByNext = ({ kind, kindVersion, mode }: Given<Kind>) =>
  query
    .selectFrom("lanes")
    .select(select("lanes", "id", "next_at", "ranks"))
    .where("kind", "=", kind)
    .where("kind_version", "=", kindVersion)
    .where("mode", "=", mode)
    .where("next_at", "is not", null)
    .orderBy("next_at")
    .limit(1)
    .$narrowType<{ nextAt: number }>()

export const earliestLane = statement((given: Given<Kind>) => lanesByNext(given))

/** Without the lanes of some projects, given as a JSON list. Those lanes come first in the index, and are few. */
export const earliestLaneOfOthers = statement((given: Given<Kind & { readonly projects: string }>) =>
  lanesByNext(given).where("project_id", "not in", sql<ProjectId>`(SELECT value FROM json_each(${given.projects}))`),
)

const setTurnAndNextAt = statement((given: Given<Values<"lanes", "id" | "next_at"> & { readonly turn: number }>) =>
  query.updateTable("lanes").set({ virtual_time: given.turn, next_at: given.nextAt }).where("id", "=", given.id),
)

/**
 * Records when a lane with nothing claimable has something again, and its turn if it was served. Until then, claims skip it.
 */
export const settleLane = (
  tx: Transaction,
  { id, ranks }: Values<"lanes", "id" | "ranks">,
  turn?: number,
): number | null => {
  const times = ranksIn(ranks).map(
    (rank) => tx.get(nextOfRank, { laneId: id, rank, now: tx.now })?.claimableAt ?? Infinity,
  )
  const first = Math.min(...times)
  const nextAt = first === Infinity ? null : first
  if (turn === undefined) tx.run(setNextAt, { id, nextAt })
  else tx.run(setTurnAndNextAt, { id, nextAt, turn })
  return nextAt
}

/** Maximum number of lanes that one claim corrects, so that claims stay short after a burst in many lanes. */
const maxCorrections = 16

/** A claim's view of the lanes. */
export interface KnownLanes {
  /** When lanes may have something, before the claim. `undefined`: they must be read. */
  readonly times: ReadonlyArray<LaneTime> | undefined
  /** The lanes that the claim has settled. */
  readonly settled: ReadonlyMap<number, number | null>
}

/**
 * Returns the milliseconds until one of these lanes may have something, once those with nothing claimable now are settled. The
 * earliest time is checked before it is returned, because its job may have finished or its lease may have been extended. Lanes at
 * their limit are not settled; they count when they have capacity again.
 */
export const nextInMs = (
  tx: Transaction,
  runnable: ReadonlyArray<Runnable>,
  running: JobsInProgress,
  { settled, times }: KnownLanes,
): number | undefined => {
  const roomAt = running.firstRoomAt(runnable)
  const open = runnable.filter((item) => !running.kindIsFull(item))
  const isKnown = times !== undefined && open.every(({ mode }) => running.fullProjects(mode).length === 0)
  let known =
    isKnown && open.length === runnable.length ? times.flatMap((lane) => afterClaim(lane, settled)) : undefined
  for (let corrections = 0; ; corrections += 1) {
    const lanes = known ?? open.flatMap((item) => earliestOf(tx, item, running) ?? [])
    const earliest = lanes.reduce((a, b) => (b.nextAt < a.nextAt ? b : a), { id: -1, nextAt: Infinity, ranks: 0 })
    if (roomAt <= earliest.nextAt) return roomAt === Infinity ? undefined : roomAt - tx.now
    const isExact = settled.has(earliest.id) || corrections === maxCorrections
    if (isExact || settleLane(tx, earliest) === earliest.nextAt) return earliest.nextAt - tx.now
    known = undefined
  }
}

const afterClaim = (lane: LaneTime, settled: KnownLanes["settled"]): ReadonlyArray<LaneTime> => {
  const nextAt = settled.get(lane.id)
  if (nextAt === undefined) return [lane]
  return nextAt === null ? [] : [{ ...lane, nextAt }]
}

const earliestOf = (tx: Transaction, { kind, kindVersion, mode }: Runnable, running: JobsInProgress) => {
  const lanes = { kind, kindVersion, mode }
  const full = running.fullProjects(mode)
  return full.length === 0
    ? tx.get(earliestLane, lanes)
    : tx.get(earliestLaneOfOthers, { ...lanes, projects: JSON.stringify(full) })
}
