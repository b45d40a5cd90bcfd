import { sql } from "kysely"
import type { JobMode, ProjectId } from "@kiln/core/domain"
import type { Session } from "../connection/Session.ts"
import { batchStatement, type BatchTable, integer, type ItemOf, query, text } from "../Statement.ts"

const laneKey = { projectId: text<ProjectId>(), kind: text(), kindVersion: integer(), mode: text<JobMode>() }

/** A lane holds one project's jobs of one kind, version and mode. */
export type LaneKey = ItemOf<typeof laneKey>

const selectLanes = batchStatement(laneKey, (item) =>
  query
    .selectFrom("lanes")
    .innerJoin(item, (join) =>
      join
        .onRef("item.projectId", "=", "lanes.project_id")
        .onRef("item.kind", "=", "lanes.kind")
        .onRef("item.kindVersion", "=", "lanes.kind_version")
        .onRef("item.mode", "=", "lanes.mode"),
    )
    .select(["lanes.id", "item.projectId", "item.kind", "item.kindVersion", "item.mode"]),
)

/**
 * Numbers lanes in the order of the request, which orders lanes of equal turn, and inserts them in the order of their keys to
 * avoid deadlocks. Another transaction may insert the same lane first.
 */
const insertLanes = batchStatement(laneKey, (item) =>
  query
    .insertInto("lanes")
    .columns(["id", "project_id", "kind", "kind_version", "mode"])
    .expression(
      query
        .selectFrom((from) =>
          from
            .selectFrom(item)
            .select([
              sql<number>`nextval('"kiln".lanes_id_seq')`.as("id"),
              "item.projectId",
              "item.kind",
              "item.kindVersion",
              "item.mode",
            ])
            .orderBy("item.ord")
            .offset(0)
            .as("numbered"),
        )
        .selectAll()
        .orderBy("projectId")
        .orderBy("kind")
        .orderBy("kindVersion")
        .orderBy("mode"),
    )
    .onConflict((conflict) => conflict.columns(["project_id", "kind", "kind_version", "mode"]).doNothing()),
)

/** The name of a lane within a process. */
export const laneName = ({ kind, kindVersion, mode, projectId }: LaneKey): string =>
  JSON.stringify([projectId, kind, kindVersion, mode])

/** The lanes of jobs, by name. */
export type Lanes = ReadonlyMap<string, number>

/** Returns the lane of a job. Throws if it is not among the lanes. */
export const laneOf = (lanes: Lanes, job: LaneKey): number => {
  const lane = lanes.get(laneName(job))
  if (lane === undefined) throw new TypeError("a new job lacks its lane")
  return lane
}

const distinct = (jobs: ReadonlyArray<LaneKey>): ReadonlyArray<LaneKey> => [
  ...new Map(
    jobs.map(({ kind, kindVersion, mode, projectId }) => {
      const key = { projectId, kind, kindVersion, mode }
      return [laneName(key), key]
    }),
  ).values(),
]

/** Maximum number of remembered lanes; when it is exceeded, all are forgotten. */
const mostRemembered = 20_000

/**
 * The lanes that this process has seen, by name. `accept_jobs` checks them in the transaction that adds jobs, and adds nothing if
 * a remembered lane is missing or has become another one.
 */
export class RememberedLanes {
  readonly #ids = new Map<string, number>()

  /** Returns the lanes by name, or `undefined` unless the lanes of all these jobs are known. */
  ofAll(jobs: ReadonlyArray<LaneKey>): Lanes | undefined {
    return jobs.every((job) => this.#ids.has(laneName(job))) ? this.#ids : undefined
  }

  remember(lanes: Lanes): void {
    if (this.#ids.size + lanes.size > mostRemembered) this.#ids.clear()
    for (const [name, id] of lanes) this.#ids.set(name, id)
  }

  /** Forgets all lanes, because one of them was wrong. */
  forget(): void {
    this.#ids.clear()
  }
}

/** Returns the existing lanes of these jobs, by name. */
export const findLanes = async (session: Session, jobs: ReadonlyArray<LaneKey>): Promise<Map<string, number>> =>
  new Map((await session.batch(selectLanes, distinct(jobs))).map((lane) => [laneName(lane), lane.id]))

/** Inserts the lanes of these jobs that are missing from `known`, and adds them to it. */
export const makeLanes = async (
  tx: Session,
  jobs: ReadonlyArray<LaneKey>,
  known: Map<string, number>,
): Promise<void> => {
  const missing = distinct(jobs).filter((lane) => !known.has(laneName(lane)))
  if (missing.length === 0) return
  // Another transaction may have inserted the same lane; the second statement then finds it.
  const [, found] = await Promise.all([tx.runBatch(insertLanes, missing), findLanes(tx, missing)])
  for (const [name, id] of found) known.set(name, id)
}

const laneTime = { laneId: integer(), nextAt: integer() }

const laterThan = (item: BatchTable<ItemOf<typeof laneTime>>) =>
  query
    .selectFrom("lanes")
    .innerJoin(item, (join) => join.onRef("item.laneId", "=", "lanes.id"))
    .select("lanes.id")
    .where((where) =>
      where.or([where("lanes.next_at", "is", null), where("lanes.next_at", ">", where.ref("item.nextAt"))]),
    )

const laterLanes = batchStatement(laneTime, laterThan)

/** Keeps `next_at` a lower bound. Lanes that change are locked in the order of their ids first, to avoid deadlocks. */
const lowerNextAt = batchStatement(laneTime, (item) =>
  query
    .with("later", () => laterThan(item).select("item.nextAt").orderBy("lanes.id").forNoKeyUpdate("lanes"))
    .updateTable("lanes")
    .from("later")
    .set((set) => ({ next_at: set.ref("later.nextAt") }))
    .whereRef("lanes.id", "=", "later.id"),
)

export interface MayBeClaimable {
  readonly laneId: number
  readonly claimableAt: number | null
}

const earliestOf = (jobs: ReadonlyArray<MayBeClaimable>) => {
  const earliest = new Map<number, number>()
  for (const { claimableAt, laneId } of jobs)
    if (claimableAt !== null) earliest.set(laneId, Math.min(claimableAt, earliest.get(laneId) ?? claimableAt))
  return [...earliest].map(([laneId, nextAt]) => ({ laneId, nextAt }))
}

/** Whether `mayBeClaimableAt` has anything to write. */
export const anyLaneIsLater = async (session: Session, jobs: ReadonlyArray<MayBeClaimable>): Promise<boolean> =>
  (await session.batch(laterLanes, earliestOf(jobs))).length > 0

/**
 * Lowers `next_at` of lanes to when these jobs become claimable. Runs last in a transaction, after it locked the lanes (KEY
 * SHARE): a concurrent `settle_lanes` has either finished, and this sees its result, or skips the lane. Only earlier times are written, so
 * creating and extending rarely write here.
 */
export const mayBeClaimableAt = async (tx: Session, jobs: ReadonlyArray<MayBeClaimable>): Promise<void> => {
  await tx.runBatch(lowerNextAt, earliestOf(jobs))
}
