import { sql } from "kysely"
import type { JobMode, ProjectId } from "@kiln/core/domain"
import type { ConcurrencyLimits } from "@kiln/core/ports"
import type { Transaction } from "../Session.ts"
import { type Given, query, statement } from "../Statement.ts"

/** Claims that ask for limits go one after the other: each counts what the one before it handed out. Ends with the transaction. */
const oneAtATime = statement(() =>
  query.selectNoFrom(
    sql`pg_advisory_xact_lock(hashtextextended(current_database() || ' "kiln".claims', 0))`.as("lock"),
  ),
)

/** Counted in an index of held jobs alone: however many jobs there are, those in hand are few. */
export const jobsInHand = statement((given: Given<{ now: number }>) =>
  query
    .selectFrom("queue")
    .select(["mode", "kind", "project_id as projectId"])
    .select((select) => [
      select.fn.countAll<number>().as("count"),
      select.fn.min<number>("claimable_at").as("firstEnd"),
    ])
    .where("held", "=", true)
    .where("claimable_at", ">", given.now)
    .groupBy(["mode", "kind", "project_id"]),
)

/** Jobs that count against one limit. */
interface Taken {
  readonly count: number
  /** The first end of their leases. */
  readonly firstEnd: number
}

/** What limits look at. */
export interface Limited {
  readonly kind: string
  readonly mode: JobMode
  readonly projectId: ProjectId
}

/** The jobs in hand, as far as limits ask for them: read once, and kept up to date by what the claim hands out. */
export class InHand {
  readonly #limits: ConcurrencyLimits
  readonly #byKind: Map<string, Taken>
  readonly #byProject: Map<string, Taken>

  private constructor(limits: ConcurrencyLimits, byKind: Map<string, Taken>, byProject: Map<string, Taken>) {
    this.#limits = limits
    this.#byKind = byKind
    this.#byProject = byProject
  }

  static async load(tx: Transaction, limits: ConcurrencyLimits): Promise<InHand> {
    const inHand = new InHand(limits, new Map(), new Map())
    if (!isLimited(limits)) return inHand
    await tx.all(oneAtATime, {})
    for (const { count, firstEnd, ...lane } of await tx.all(jobsInHand, { now: tx.now }))
      inHand.add(lane, count, firstEnd)
    return inHand
  }

  /** Another one, to be added to without changing this. */
  copy(): InHand {
    return new InHand(this.#limits, new Map(this.#byKind), new Map(this.#byProject))
  }

  add({ kind, mode, projectId }: Limited, count: number, firstEnd: number): void {
    if (!isLimited(this.#limits)) return
    take(this.#byKind, `${mode} ${kind}`, count, firstEnd)
    take(this.#byProject, `${mode} ${projectId}`, count, firstEnd)
  }

  /** Whether no further job of a kind may be claimed. */
  kindIsFull({ kind, mode }: Pick<Limited, "kind" | "mode">): boolean {
    const { perKind } = this.#limits
    const limit = Object.hasOwn(perKind, kind) ? perKind[kind] : undefined
    return limit !== undefined && (this.#byKind.get(`${mode} ${kind}`)?.count ?? 0) >= limit
  }

  /** Whether no further job of a lane may be claimed. */
  isFull(lane: Limited): boolean {
    return this.kindIsFull(lane) || this.#projectIsFull(this.#byProject.get(`${lane.mode} ${lane.projectId}`))
  }

  /** Projects of which no further job may be claimed in their mode, each as `mode id`. */
  get fullProjects(): ReadonlyArray<string> {
    return [...this.#byProject].flatMap(([name, taken]) => (this.#projectIsFull(taken) ? [name] : []))
  }

  /** When the first of the full among these kinds, and their projects, has room by itself. */
  firstRoomAt(runnable: ReadonlyArray<Pick<Limited, "kind" | "mode">>): number {
    const modes = new Set<string>(runnable.map(({ mode }) => mode))
    const full = [
      ...runnable.flatMap((item) => (this.kindIsFull(item) ? [this.#byKind.get(`${item.mode} ${item.kind}`)] : [])),
      ...this.fullProjects.flatMap((name) =>
        modes.has(name.split(" ", 1)[0] ?? "") ? [this.#byProject.get(name)] : [],
      ),
    ]
    return full.reduce((first, taken) => Math.min(first, taken?.firstEnd ?? Infinity), Infinity)
  }

  #projectIsFull(taken: Taken | undefined): boolean {
    return this.#limits.perProject > 0 && taken !== undefined && taken.count >= this.#limits.perProject
  }
}

const isLimited = ({ perKind, perProject }: ConcurrencyLimits): boolean =>
  perProject > 0 || Object.keys(perKind).length > 0

const take = (by: Map<string, Taken>, key: string, count: number, firstEnd: number): void => {
  const taken = by.get(key)
  by.set(key, {
    count: (taken?.count ?? 0) + count,
    firstEnd: Math.min(taken?.firstEnd ?? Infinity, firstEnd),
  })
}
