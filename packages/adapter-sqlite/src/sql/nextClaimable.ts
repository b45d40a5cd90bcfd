import { sql } from "kysely"
import type { InHand, JobMode, ProjectId } from "@kiln/core/domain"
import type { Runnable } from "@kiln/core/ports"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"
import { ranks } from "./ranks.ts"

const [first = 0, ...others] = ranks

const claimableLater = (given: Given<{ laneId: number; now: number }>, rank: number) =>
  query
    .selectFrom("jobs")
    .select("claimable_at as claimableAt")
    .where("lane_id", "=", given.laneId)
    .where("priority", "=", rank)
    .where("claimable_at", ">", given.now)
    .whereRef("deadline_at", ">", "claimable_at")

/**
 * When a lane without anything claimable has something again: the first of all priorities, one walk of the index for each.
 * A job whose deadline comes first never will be.
 */
export const nextClaimable = statement((given: Given<{ laneId: number; now: number }>) =>
  others
    .reduce((merged, rank) => merged.unionAll(claimableLater(given, rank)), claimableLater(given, first))
    .orderBy("claimableAt")
    .limit(1),
)

/** Writes nothing where it stands already, so that a look of an idle worker is no commit. */
const setNextAt = statement((given: Given<{ laneId: number; nextAt: number | null }>) =>
  query
    .updateTable("lanes")
    .set({ next_at: given.nextAt })
    .where("id", "=", given.laneId)
    .where("next_at", "is not", given.nextAt),
)

type KindKey = { kind: string; kindVersion: number; mode: JobMode }

const lanesByNext = ({ kind, kindVersion, mode }: Given<KindKey>) =>
  query
    .selectFrom("lanes")
    .select(["id", "next_at as nextAt"])
    .where("kind", "=", kind)
    .where("kind_version", "=", kindVersion)
    .where("mode", "=", mode)
    .where("next_at", "is not", null)
    .orderBy("next_at")
    .limit(1)
    .$narrowType<{ nextAt: number }>()

export const earliestLane = statement((given: Given<KindKey>) => lanesByNext(given))

/** The same without the lanes of some projects, a list in JSON. They come first in the index, and are few. */
export const earliestLaneOfOthers = statement((given: Given<KindKey & { projects: string }>) =>
  lanesByNext(given).where("project_id", "not in", sql<ProjectId>`(SELECT value FROM json_each(${given.projects}))`),
)

/** Sets a lane without anything claimable to the time when it has something again, and so out of the way until then. */
export const settleLane = (tx: Transaction, laneId: number): number | null => {
  const nextAt = tx.get(nextClaimable, { laneId, now: tx.now })?.claimableAt ?? null
  tx.run(setNextAt, { laneId, nextAt })
  return nextAt
}

/** How many lanes one claim corrects at most, so that a claim stays short after a burst in many lanes. */
const maxCorrections = 16

/**
 * Milliseconds until one of these lanes may have something, after all that had something now were
 * settled. The earliest is looked at before it is believed: its job may have ended meanwhile, or
 * its lease may have been extended. Lanes at their limit were not settled; they come when there is room.
 */
export const nextInMs = (tx: Transaction, runnable: ReadonlyArray<Runnable>, inHand: InHand): number | undefined => {
  const roomAt = inHand.firstRoomAt(runnable)
  const open = runnable.filter((item) => !inHand.kindIsFull(item))
  for (let corrections = 0; ; corrections += 1) {
    const earliest = open
      .flatMap((item) => earliestOf(tx, item, inHand) ?? [])
      .reduce((a, b) => (b.nextAt < a.nextAt ? b : a), { id: -1, nextAt: Infinity })
    if (roomAt <= earliest.nextAt) return roomAt === Infinity ? undefined : roomAt - tx.now
    if (corrections === maxCorrections || settleLane(tx, earliest.id) === earliest.nextAt)
      return earliest.nextAt - tx.now
  }
}

const earliestOf = (tx: Transaction, { kind, kindVersion, mode }: Runnable, inHand: InHand) => {
  const lanes = { kind, kindVersion, mode }
  const full = inHand.fullProjects(mode)
  return full.length === 0
    ? tx.get(earliestLane, lanes)
    : tx.get(earliestLaneOfOthers, { ...lanes, projects: JSON.stringify(full) })
}
