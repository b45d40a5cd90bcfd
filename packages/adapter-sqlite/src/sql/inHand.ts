import type { JobMode, ProjectId } from "@kiln/core/domain"
import type { ConcurrencyLimits } from "@kiln/core/ports"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"

/** Counted in an index of held jobs alone, in its order: however many jobs there are, those in hand are few. */
export const jobsInHand = statement((given: Given<{ now: number }>) =>
  query
    .selectFrom("jobs")
    .select(["mode", "kind", "project_id as projectId"])
    .select((select) => [
      select.fn.countAll<number>().as("count"),
      select.fn.min<number>("claimable_at").as("firstEnd"),
    ])
    .where("held", "=", 1)
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
interface Limited {
  readonly kind: string
  readonly mode: JobMode
  readonly projectId: ProjectId
}

/** The jobs in hand, as far as limits ask for them: read once, and kept up to date by what the claim hands out. */
export class InHand {
  readonly #limits: ConcurrencyLimits
  readonly #limited: boolean
  readonly #byKind = { sandbox: new Map<string, Taken>(), live: new Map<string, Taken>() }
  readonly #byProject = { sandbox: new Map<ProjectId, Taken>(), live: new Map<ProjectId, Taken>() }

  constructor(tx: Transaction, limits: ConcurrencyLimits) {
    this.#limits = limits
    this.#limited = limits.perProject > 0 || Object.keys(limits.perKind).length > 0
    if (!this.#limited) return
    for (const { count, firstEnd, ...lane } of tx.all(jobsInHand, { now: tx.now })) this.add(lane, count, firstEnd)
  }

  add({ kind, mode, projectId }: Limited, count: number, firstEnd: number): void {
    if (!this.#limited) return
    take(this.#byKind[mode], kind, count, firstEnd)
    take(this.#byProject[mode], projectId, count, firstEnd)
  }

  /** Whether no further job of a kind may be claimed. */
  kindIsFull({ kind, mode }: Pick<Limited, "kind" | "mode">): boolean {
    const { perKind } = this.#limits
    const limit = Object.hasOwn(perKind, kind) ? perKind[kind] : undefined
    return limit !== undefined && (this.#byKind[mode].get(kind)?.count ?? 0) >= limit
  }

  /** Whether no further job of a lane may be claimed. */
  isFull(lane: Limited): boolean {
    return this.kindIsFull(lane) || this.#projectIsFull(this.#byProject[lane.mode].get(lane.projectId))
  }

  /** Projects of which no further job may be claimed in this mode. */
  fullProjects(mode: JobMode): ReadonlyArray<ProjectId> {
    return [...this.#byProject[mode]].flatMap(([projectId, taken]) => (this.#projectIsFull(taken) ? [projectId] : []))
  }

  /** When the first of the full among these kinds, and their projects, has room by itself. */
  firstRoomAt(runnable: ReadonlyArray<Pick<Limited, "kind" | "mode">>): number {
    const modes = new Set(runnable.map(({ mode }) => mode))
    const full = [
      ...runnable.flatMap((item) => (this.kindIsFull(item) ? [this.#byKind[item.mode].get(item.kind)] : [])),
      ...[...modes].flatMap((mode) => this.fullProjects(mode).map((id) => this.#byProject[mode].get(id))),
    ]
    return full.reduce((first, taken) => Math.min(first, taken?.firstEnd ?? Infinity), Infinity)
  }

  #projectIsFull(taken: Taken | undefined): boolean {
    return this.#limits.perProject > 0 && taken !== undefined && taken.count >= this.#limits.perProject
  }
}

const take = <Key>(by: Map<Key, Taken>, key: Key, count: number, firstEnd: number): void => {
  const taken = by.get(key)
  by.set(key, {
    count: (taken?.count ?? 0) + count,
    firstEnd: Math.min(taken?.firstEnd ?? Infinity, firstEnd),
  })
}
