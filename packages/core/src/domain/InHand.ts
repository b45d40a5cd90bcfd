import type { JobMode } from "./Access.ts"
import type { ProjectId } from "./Ids.ts"

/** How many jobs may be in hand at once, all processes together. Live and sandbox jobs are counted apart. */
export interface ConcurrencyLimits {
  /** By kind, all its versions together, at least 1. A kind that is not named has no limit. */
  readonly perKind: Readonly<Record<string, number>>
  /** For each project, all its kinds together; 0 is no limit. */
  readonly perProject: number
}

/** Whether they bound anything: where not, nothing need be counted. */
export const isLimiting = ({ perKind, perProject }: ConcurrencyLimits): boolean =>
  perProject > 0 || Object.keys(perKind).length > 0

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

/** Jobs in hand of one kind, project and mode, as a store counts them. */
export interface HandCount extends Limited, Taken {}

/** The jobs in hand, as far as limits ask for them: counted once by the store, and kept up to date by what a claim hands out. */
export class InHand {
  readonly #limits: ConcurrencyLimits
  readonly #byKind = { sandbox: new Map<string, Taken>(), live: new Map<string, Taken>() }
  readonly #byProject = { sandbox: new Map<ProjectId, Taken>(), live: new Map<ProjectId, Taken>() }

  constructor(limits: ConcurrencyLimits, counted: Iterable<HandCount> = []) {
    this.#limits = limits
    for (const { count, firstEnd, ...lane } of counted) this.add(lane, count, firstEnd)
  }

  /** Another one, to be added to without changing this. */
  copy(): InHand {
    const copied = new InHand(this.#limits)
    for (const mode of ["sandbox", "live"] as const) {
      for (const [kind, taken] of this.#byKind[mode]) copied.#byKind[mode].set(kind, taken)
      for (const [projectId, taken] of this.#byProject[mode]) copied.#byProject[mode].set(projectId, taken)
    }
    return copied
  }

  add({ kind, mode, projectId }: Limited, count: number, firstEnd: number): void {
    if (!isLimiting(this.#limits)) return
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
