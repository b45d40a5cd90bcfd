import { sql } from "kysely"
import { type JobsInProgress, priorities, priorityRank, type ProjectId } from "@kiln/core/domain"
import type { Runnable } from "@kiln/core/ports"
import { select, type Values } from "../columns.ts"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"

/** The priorities as rows store them, highest first. */
export const ranks: ReadonlyArray<number> = priorities.map((priority) => priorityRank[priority])

/** The priorities of a lane that never had a job of another. */
export const normalOnly: ReadonlyArray<number> = [priorityRank.normal]

/** The ranges of a lane in the index of ready jobs. */
const [first = { held: 0, rank: 0 }, ...others] = ranks.flatMap((rank) => [
  { held: 0, rank } as const,
  { held: 1, rank } as const,
])

type LaneAt = { readonly laneId: number; readonly now: number }

const claimableLater = (given: Given<LaneAt>, { held, rank }: typeof first) =>
  query
    .selectFrom("jobs")
    .select(select("jobs", "claimable_at"))
    .where("held", "=", held)
    .where("lane_id", "=", given.laneId)
    .where("priority", "=", rank)
    .where("claimable_at", ">", given.now)
    .whereRef("deadline_at", ">", "claimable_at")

/**
 * When a lane with nothing claimable has something again, whether held or not, across priorities: one range of the index for each. A job whose deadline
 * comes first never becomes claimable.
 */
export const nextClaimable = statement((given: Given<LaneAt>) =>
  others
    .reduce((merged, range) => merged.unionAll(claimableLater(given, range)), claimableLater(given, first))
    .orderBy("claimableAt")
    .limit(1),
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
    .select(select("lanes", "id", "next_at"))
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

/** Records when a lane with nothing claimable has something again. Until then, claims skip it. */
export const settleLane = (tx: Transaction, laneId: number): number | null => {
  const nextAt = tx.get(nextClaimable, { laneId, now: tx.now })?.claimableAt ?? null
  tx.run(setNextAt, { id: laneId, nextAt })
  return nextAt
}

/** Maximum number of lanes that one claim corrects, so that claims stay short after a burst in many lanes. */
const maxCorrections = 16

/**
 * Returns the milliseconds until one of these lanes may have something, once those with nothing claimable now are settled. The
 * earliest time is checked before it is returned, because its job may have finished or its lease may have been extended. Lanes at
 * their limit are not settled; they count when they have capacity again.
 */
export const nextInMs = (
  tx: Transaction,
  runnable: ReadonlyArray<Runnable>,
  running: JobsInProgress,
): number | undefined => {
  const roomAt = running.firstRoomAt(runnable)
  const open = runnable.filter((item) => !running.kindIsFull(item))
  for (let corrections = 0; ; corrections += 1) {
    const earliest = open
      .flatMap((item) => earliestOf(tx, item, running) ?? [])
      .reduce((a, b) => (b.nextAt < a.nextAt ? b : a), { id: -1, nextAt: Infinity })
    if (roomAt <= earliest.nextAt) return roomAt === Infinity ? undefined : roomAt - tx.now
    if (corrections === maxCorrections || settleLane(tx, earliest.id) === earliest.nextAt)
      return earliest.nextAt - tx.now
  }
}

const earliestOf = (tx: Transaction, { kind, kindVersion, mode }: Runnable, running: JobsInProgress) => {
  const lanes = { kind, kindVersion, mode }
  const full = running.fullProjects(mode)
  return full.length === 0
    ? tx.get(earliestLane, lanes)
    : tx.get(earliestLaneOfOthers, { ...lanes, projects: JSON.stringify(full) })
}
