import { sql } from "kysely"
import type { ProjectId } from "@kiln/core/domain"
import type { NewJob } from "@kiln/core/ports"
import type { Values } from "../columns.ts"
import { type Given, query, type RowOf, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"

/** The newest job, by number. */
const newest = query.selectFrom("jobs").where("seq", ">", 0).orderBy("seq", "desc").limit(1)

/**
 * The unfinished jobs of a project, counted up to the cap in the index that claims use, and the newest job of all projects. The cross
 * join reads the project's lanes first.
 */
export const unfinishedJobs = statement((given: Given<Values<"lanes", "project_id"> & { readonly cap: number }>) =>
  query
    .selectFrom((from) =>
      from
        .selectFrom("lanes as own")
        .crossJoin("jobs")
        .select("jobs.lane_id")
        .where("own.project_id", "=", given.projectId)
        .whereRef("jobs.lane_id", "=", "own.id")
        .where("jobs.held", "in", [0, 1])
        .where("jobs.claimable_at", "is not", null)
        .limit(given.cap)
        .as("unfinished"),
    )
    .select((of) => [
      of.fn.countAll<number>().as("count"),
      newest.select("seq").as("seq"),
      newest.select("id").as("id"),
    ]),
)

/** The number of jobs that a project had unfinished at most, and the newest job then. */
interface Counted {
  readonly count: number
  readonly seq: number
  readonly id: string | null
  readonly at: number
}

/** A cap, and what was counted: at most `count` jobs were unfinished when the newest job was this one. 0 is no cap. */
export type Room = {
  readonly cap: number
  readonly count: number
  readonly seq: number
  readonly newestId: string | null
}

const noCap: Room = { cap: 0, count: 0, seq: 0, newestId: null }

/**
 * An upper bound of the unfinished jobs: as many more as numbers were given since they were counted, by any process and for any project. A
 * number is given again only after the newest job was deleted, so the bound holds while the job that was the newest exists.
 */
const bound = (given: Given<Pick<Room, "count" | "seq" | "newestId">>) =>
  sql<
    number | null
  >`CASE WHEN (${query.selectFrom("jobs").select("id").where("seq", "=", given.seq)}) IS ${given.newestId}
    THEN ${given.count} + coalesce((${newest.select("seq")}), 0) - ${given.seq} END`

const boundOf = statement((given: Given<Pick<Room, "count" | "seq" | "newestId">>) =>
  query.selectNoFrom(bound(given).as("bound")),
)

/** Whether a project has room for another job, without counting. */
export const hasRoom = (given: Given<Room>) => sql<boolean>`(${given.cap} = 0 OR ${bound(given)} < ${given.cap})`

/** Maximum number of remembered projects; when it is exceeded, all are forgotten. */
const mostRemembered = 10_000
/** After this time, a project is counted again, because a file that was restored gives numbers again. */
const rememberedForMs = 300_000

/** What this process has counted of projects that have a queue cap. */
export class CountedProjects {
  readonly #counts = new Map<ProjectId, Counted>()
  /** The highest number of a job that this process knows. */
  #newest = 0

  /** Notes the number of a new job. */
  noteNewest(seq: number): void {
    this.#newest = seq
  }

  /** Returns what a statement compares to insert a job without counting; `undefined` if the project has no room. */
  roomFor(tx: Transaction, { projectId, queueCap: cap }: NewJob): Room | undefined {
    if (cap === 0) return noCap
    const known = this.#of(projectId, tx.now)
    if (known !== undefined && known.count + this.#newest - known.seq < cap) return roomOf(known, cap)
    const counted = this.#count(tx, projectId, cap)
    return counted.count < cap ? roomOf(counted, cap) : undefined
  }

  /** Returns at least the number of the project's unfinished jobs; exactly that, or the cap, if it does not seem to be below the cap. */
  unfinished(tx: Transaction, projectId: ProjectId, cap: number): number {
    const known = this.#of(projectId, tx.now)
    const most = known && tx.get(boundOf, { count: known.count, seq: known.seq, newestId: known.id })?.bound
    return typeof most === "number" && most < cap ? most : this.#count(tx, projectId, cap).count
  }

  #of(projectId: ProjectId, now: number): Counted | undefined {
    const known = this.#counts.get(projectId)
    return known !== undefined && Math.abs(now - known.at) < rememberedForMs ? known : undefined
  }

  #count(tx: Transaction, projectId: ProjectId, cap: number): Counted {
    const counted = countedAt(tx.now, tx.get(unfinishedJobs, { projectId, cap }))
    this.#newest = counted.seq
    if (this.#counts.size >= mostRemembered) this.#counts.clear()
    // Counting stops at the cap, and another cap may be higher.
    if (counted.count < cap) this.#counts.set(projectId, counted)
    else this.#counts.delete(projectId)
    return counted
  }
}

const roomOf = ({ count, id, seq }: Counted, cap: number): Room => ({ cap, count, seq, newestId: id })

const countedAt = (at: number, row: RowOf<typeof unfinishedJobs> | undefined): Counted => ({
  count: row?.count ?? 0,
  seq: row?.seq ?? 0,
  id: row?.id ?? null,
  at,
})
