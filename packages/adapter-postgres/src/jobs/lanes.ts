import { sql } from "kysely"
import type { JobMode, ProjectId } from "@kiln/core/domain"
import type { Session } from "../Session.ts"
import { batchStatement, query } from "../Statement.ts"

/** A lane is one project's jobs of one kind, version and mode. */
export interface LaneKey {
  readonly projectId: ProjectId
  readonly kind: string
  readonly kindVersion: number
  readonly mode: JobMode
}

const columns = { projectId: "text", kind: "text", kindVersion: "bigint", mode: "text" } as const

const selectLanes = batchStatement<LaneKey, {}, LaneKey & { readonly id: number }>(columns, (item) =>
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
 * Numbered in the order in which they are asked for, which is the order among lanes of equal turn; inserted in the order of
 * their keys, so that no two transactions wait for each other. Another may make the same one first.
 */
const insertLanes = batchStatement<LaneKey, {}, unknown>(columns, (item) =>
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

/** Names a lane within one verb. */
export const laneName = ({ kind, kindVersion, mode, projectId }: LaneKey): string =>
  JSON.stringify([projectId, kind, kindVersion, mode])

const distinct = (jobs: ReadonlyArray<LaneKey>): ReadonlyArray<LaneKey> => [
  ...new Map(
    jobs.map(({ kind, kindVersion, mode, projectId }) => {
      const key = { projectId, kind, kindVersion, mode }
      return [laneName(key), key]
    }),
  ).values(),
]

/** Lanes a process remembers at most: beyond that it forgets them all, and looks them up again. */
const mostRemembered = 20_000

/**
 * The lanes that this process has seen, by name. Lanes are not removed, so what is remembered is looked up only when
 * jobs are added, together with them: `add_jobs` refuses a lane that is not what it was taken for.
 */
export class RememberedLanes {
  readonly #ids = new Map<string, number>()

  /** The lanes of these jobs by name; `undefined` unless all of them are known. */
  ofAll(jobs: ReadonlyArray<LaneKey>): ReadonlyMap<string, number> | undefined {
    return jobs.every((job) => this.#ids.has(laneName(job))) ? this.#ids : undefined
  }

  /** Takes in lanes that were read. */
  remember(lanes: ReadonlyMap<string, number>): void {
    if (this.#ids.size + lanes.size > mostRemembered) this.#ids.clear()
    for (const [name, id] of lanes) this.#ids.set(name, id)
  }

  /** Forgets everything: one of them was not there. */
  forget(): void {
    this.#ids.clear()
  }
}

/** The lanes of these jobs by name, as far as there are any. */
export const findLanes = async (session: Session, jobs: ReadonlyArray<LaneKey>): Promise<Map<string, number>> =>
  new Map((await session.batch(selectLanes, distinct(jobs), {})).map((lane) => [laneName(lane), lane.id]))

/** Makes those lanes of these jobs that are not known yet, and adds them to what is. */
export const makeLanes = async (
  tx: Session,
  jobs: ReadonlyArray<LaneKey>,
  known: Map<string, number>,
): Promise<void> => {
  const missing = distinct(jobs).filter((lane) => !known.has(laneName(lane)))
  if (missing.length === 0) return
  // Another may make the same at this moment: then the second look waits for nothing and finds it.
  const [, found] = await Promise.all([tx.runBatch(insertLanes, missing, {}), findLanes(tx, missing)])
  for (const [name, id] of found) known.set(name, id)
}

/** Keeps `next_at` a lower bound. Only a time that comes earlier is written, so creating and extending seldom write here at all. */
const lowerNextAt = batchStatement<{ laneId: number; nextAt: number }, {}, unknown>(
  { laneId: "bigint", nextAt: "bigint" },
  (item) =>
    query
      .updateTable("lanes")
      .from(item)
      .set((set) => ({ next_at: set.ref("item.nextAt") }))
      .whereRef("lanes.id", "=", "item.laneId")
      .where((where) =>
        where.or([where("lanes.next_at", "is", null), where("lanes.next_at", ">", where.ref("item.nextAt"))]),
      ),
)

const lockLanes = batchStatement<{ laneId: number; nextAt: number }, {}, { readonly id: number }>(
  { laneId: "bigint", nextAt: "bigint" },
  (item) =>
    query
      .selectFrom("lanes")
      .innerJoin(item, (join) => join.onRef("item.laneId", "=", "lanes.id"))
      .select("lanes.id")
      .where((where) =>
        where.or([where("lanes.next_at", "is", null), where("lanes.next_at", ">", where.ref("item.nextAt"))]),
      )
      .orderBy("lanes.id")
      .forNoKeyUpdate("lanes"),
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

const laterLanes = batchStatement<{ laneId: number; nextAt: number }, {}, { readonly id: number }>(
  { laneId: "bigint", nextAt: "bigint" },
  (item) =>
    query
      .selectFrom("lanes")
      .innerJoin(item, (join) => join.onRef("item.laneId", "=", "lanes.id"))
      .select("lanes.id")
      .where((where) =>
        where.or([where("lanes.next_at", "is", null), where("lanes.next_at", ">", where.ref("item.nextAt"))]),
      ),
)

/** Whether `mayBeClaimableAt` has anything to say. */
export const anyLaneIsLater = async (session: Session, jobs: ReadonlyArray<MayBeClaimable>): Promise<boolean> =>
  (await session.batch(laterLanes, earliestOf(jobs), {})).length > 0

/**
 * Says that jobs of these lanes may become claimable then. The last thing a transaction does, after it took part in the
 * lanes (a KEY SHARE lock): whoever settles a lane has either finished, and this sees it, or does not begin. Lanes that
 * change are locked in the order of their ids first, so that no two transactions wait for each other.
 */
export const mayBeClaimableAt = async (tx: Session, jobs: ReadonlyArray<MayBeClaimable>): Promise<void> => {
  const times = earliestOf(jobs)
  if (times.length === 0 || (await tx.batch(lockLanes, times, {})).length === 0) return
  await tx.runBatch(lowerNextAt, times, {})
}
