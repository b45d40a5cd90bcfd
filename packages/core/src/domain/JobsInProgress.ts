import type { JobMode } from "./Access.ts"
import type { ProjectId } from "./Ids.ts"

/** Limits of the jobs that run at the same time, across all processes. Live and sandbox jobs are counted separately. */
export interface ConcurrencyLimits {
  /** For each kind, all its versions together, at least 1. A kind without an entry has no limit. */
  readonly perKind: Readonly<Record<string, number>>
  /** For each project, all its kinds together; 0 means no limit. */
  readonly perProject: number
  /** For the projects in it, by id, in place of `perProject`. */
  readonly projects?: Readonly<Record<ProjectId, number>> | undefined
}

/** Returns the limit of a project; 0 means no limit. */
export const projectLimit = ({ perProject, projects }: ConcurrencyLimits, projectId: ProjectId): number =>
  projects !== undefined && Object.hasOwn(projects, projectId) ? (projects[projectId] ?? perProject) : perProject

/** The concurrency limits in an engine's settings. */
export interface EngineLimits extends Pick<ConcurrencyLimits, "perKind"> {
  /**
   * The maximum number of concurrent jobs of each project that has no limit of its own (`operator.limitProject`), all its kinds together.
   * A number holds in the whole installation; 0 means no limit. `"share"`, the default, is a share of each worker's slots: a project whose
   * jobs are alone in a worker may hold all of them, and beside jobs of others at most three quarters, rounded down.
   */
  readonly perProject: number | "share"
}

/**
 * Returns how many of a worker's slots one project may hold beside others: three quarters, rounded down, and at least one. The rest stays
 * free for further projects even while they have no work, because a running job cannot be made to give up its slot.
 */
export const projectShare = (slots: number): number => Math.max(1, Math.floor((slots * 3) / 4))

/** False when no limit is set; counting can then be skipped. */
export const isLimiting = ({ perKind, perProject, projects = {} }: ConcurrencyLimits): boolean =>
  perProject > 0 || Object.keys(perKind).length > 0 || Object.keys(projects).length > 0

/** Jobs that count against one limit. */
interface TakenSlots {
  readonly count: number
  /** When the first of their leases ends. */
  readonly firstEnd: number
}

/** The fields that limits apply to. */
interface Limited {
  readonly kind: string
  readonly mode: JobMode
  readonly projectId: ProjectId
}

/** Jobs in progress of one kind, project and mode, as counted by a store. */
export interface InProgressCount extends Limited, TakenSlots {}

/** The number of further jobs of a kind, all its versions together, that a worker may take now. */
export interface KindQuota extends Pick<Limited, "kind" | "mode"> {
  readonly count: number
}

/** The free slots of a worker, and the number of them that one project may hold. Live and sandbox jobs have separate slots. */
export interface WorkerRoom {
  /** Free slots, by mode. */
  readonly free: Readonly<Record<JobMode, number>>
  /**
   * Slots of each mode that one project may hold at once, including its jobs that already run in this worker; 0 means no limit.
   */
  readonly perProject: number
  /** Jobs in this worker's slots, by project and mode. */
  readonly held: ReadonlyArray<Pick<Limited, "mode" | "projectId"> & { readonly count: number }>
  /** For kinds whose rate is limited; other kinds have no quota. */
  readonly quotas?: ReadonlyArray<KindQuota> | undefined
}

/** Counts jobs in progress against the limits. The store counts them once; each job that a claim returns is then added. */
export class JobsInProgress {
  readonly #limits: ConcurrencyLimits
  readonly #worker: OwnSlots | undefined
  readonly #byKind = { sandbox: new Map<string, TakenSlots>(), live: new Map<string, TakenSlots>() }
  readonly #byProject = { sandbox: new Map<ProjectId, TakenSlots>(), live: new Map<ProjectId, TakenSlots>() }

  constructor(limits: ConcurrencyLimits, counted: Iterable<InProgressCount> = [], worker?: WorkerRoom) {
    this.#limits = limits
    this.#worker = worker && OwnSlots.of(worker)
    for (const { count, firstEnd, ...lane } of counted) this.#count(lane, count, firstEnd)
  }

  /**
   * Adds a job that the claim returns. A lease that has already ended does not count for the installation, but still takes a
   * slot.
   */
  add(lane: Limited, leaseEndsAt: number, now: number): void {
    this.#worker?.take(lane)
    if (leaseEndsAt > now) this.#count(lane, 1, leaseEndsAt)
  }

  #count({ kind, mode, projectId }: Limited, count: number, firstEnd: number): void {
    if (!isLimiting(this.#limits)) return
    take(this.#byKind[mode], kind, count, firstEnd)
    take(this.#byProject[mode], projectId, count, firstEnd)
  }

  /** Returns whether no further job of a kind may be claimed. */
  kindIsFull({ kind, mode }: Pick<Limited, "kind" | "mode">): boolean {
    return this.#worker?.kindIsFull({ kind, mode }) === true || this.#kindIsAtLimit({ kind, mode })
  }

  /** Returns whether no further job of a lane may be claimed. */
  isFull(lane: Limited): boolean {
    return (
      this.kindIsFull(lane) ||
      this.#worker?.projectIsFull(lane) === true ||
      this.#projectIsAtLimit(lane.projectId, this.#byProject[lane.mode].get(lane.projectId))
    )
  }

  /** Returns the projects of which no further job may be claimed in this mode. */
  fullProjects(mode: JobMode): ReadonlyArray<ProjectId> {
    return [...new Set([...(this.#worker?.fullProjects(mode) ?? []), ...this.#projectsAtLimit(mode)])]
  }

  /**
   * Returns when the first kind or project that is at a limit of the installation gets room because a lease ends. A worker whose
   * own slots are full notices itself when one becomes free.
   */
  firstRoomAt(runnable: ReadonlyArray<Pick<Limited, "kind" | "mode">>): number {
    const modes = new Set(runnable.map(({ mode }) => mode).filter((mode) => this.#worker?.modeIsFull(mode) !== true))
    const full = [
      ...runnable.flatMap((item) =>
        this.#worker?.kindIsFull(item) !== true && this.#kindIsAtLimit(item)
          ? [this.#byKind[item.mode].get(item.kind)]
          : [],
      ),
      ...[...modes].flatMap((mode) =>
        this.#projectsAtLimit(mode).flatMap((id) =>
          this.#worker?.projectIsFull({ mode, projectId: id }) === true ? [] : [this.#byProject[mode].get(id)],
        ),
      ),
    ]
    return full.reduce((first, taken) => Math.min(first, taken?.firstEnd ?? Infinity), Infinity)
  }

  #kindIsAtLimit({ kind, mode }: Pick<Limited, "kind" | "mode">): boolean {
    const { perKind } = this.#limits
    const limit = Object.hasOwn(perKind, kind) ? perKind[kind] : undefined
    return limit !== undefined && (this.#byKind[mode].get(kind)?.count ?? 0) >= limit
  }

  #projectsAtLimit(mode: JobMode): ReadonlyArray<ProjectId> {
    return [...this.#byProject[mode]].flatMap(([projectId, taken]) =>
      this.#projectIsAtLimit(projectId, taken) ? [projectId] : [],
    )
  }

  #projectIsAtLimit(projectId: ProjectId, taken: TakenSlots | undefined): boolean {
    if (taken === undefined) return false
    const limit = projectLimit(this.#limits, projectId)
    return limit > 0 && taken.count >= limit
  }
}

/** The slots of the claiming worker, as the claim fills them. */
class OwnSlots {
  readonly #free: Record<JobMode, number>
  readonly #perProject: number
  readonly #held: Record<JobMode, Map<ProjectId, number>>
  /** The rest of the quotas, by mode and kind. */
  readonly #quotas: Map<string, number>

  constructor(
    free: Readonly<Record<JobMode, number>>,
    perProject: number,
    held: Readonly<Record<JobMode, ReadonlyMap<ProjectId, number>>>,
    quotas: Iterable<readonly [string, number]>,
  ) {
    this.#quotas = new Map(quotas)
    this.#free = { ...free }
    this.#perProject = perProject
    this.#held = { live: new Map(held.live), sandbox: new Map(held.sandbox) }
  }

  static of({ free, held, perProject, quotas = [] }: WorkerRoom): OwnSlots {
    const of = (mode: JobMode) =>
      new Map(held.filter((one) => one.mode === mode).map(({ count, projectId }) => [projectId, count] as const))
    const left = quotas.map(({ count, kind, mode }) => [`${mode} ${kind}`, count] as const)
    return new OwnSlots(free, perProject, { live: of("live"), sandbox: of("sandbox") }, left)
  }

  take({ kind, mode, projectId }: Limited): void {
    const quota = this.#quotas.size === 0 ? undefined : this.#quotas.get(`${mode} ${kind}`)
    if (quota !== undefined) this.#quotas.set(`${mode} ${kind}`, quota - 1)
    this.#free[mode] -= 1
    this.#held[mode].set(projectId, (this.#held[mode].get(projectId) ?? 0) + 1)
  }

  modeIsFull(mode: JobMode): boolean {
    return this.#free[mode] <= 0
  }

  kindIsFull({ kind, mode }: Pick<Limited, "kind" | "mode">): boolean {
    return this.modeIsFull(mode) || (this.#quotas.size > 0 && (this.#quotas.get(`${mode} ${kind}`) ?? 1) <= 0)
  }

  projectIsFull({ mode, projectId }: Pick<Limited, "mode" | "projectId">): boolean {
    return this.#isShare(this.#held[mode].get(projectId) ?? 0)
  }

  fullProjects(mode: JobMode): ReadonlyArray<ProjectId> {
    return [...this.#held[mode]].flatMap(([projectId, count]) => (this.#isShare(count) ? [projectId] : []))
  }

  #isShare(count: number): boolean {
    return this.#perProject > 0 && count >= this.#perProject
  }
}

const take = <Key>(by: Map<Key, TakenSlots>, key: Key, count: number, firstEnd: number): void => {
  const taken = by.get(key)
  by.set(key, {
    count: (taken?.count ?? 0) + count,
    firstEnd: Math.min(taken?.firstEnd ?? Infinity, firstEnd),
  })
}

/** A lane's place in the order: by `turn`, then by `since`, then by `id`. A lane has the waiting jobs of one project, kind, version and mode. */
export interface LaneTurn extends Limited {
  readonly id: number
  /** Virtual time: the number of turns that a lane has had, or those of the last lane served, if more. */
  readonly turn: number
  /** Its own turn, maybe behind the last lane served: of lanes that wait for room, the one served longest ago has the lowest. */
  readonly since: number
}

/** Lanes in their order, of which no more are read than the plan looks at. */
export interface LaneLine<Lane extends LaneTurn> {
  /** The kind of all its lanes. */
  readonly kind: Pick<Limited, "kind" | "mode">
  /** The first lane that was not advanced over. */
  readonly head: Lane | undefined
  readonly advance: () => void
}

const comesBefore = (a: LaneTurn, b: LaneTurn): boolean => (a.turn - b.turn || a.since - b.since || a.id - b.id) < 0

/**
 * Start-time fair queueing: the lane with the lowest turn is served, one job, and returns one turn later. So a lane with few jobs waits
 * for at most one job of each other lane, however many those have. Lanes at a limit are skipped: a claim frees no capacity, so a full
 * lane stays full. Served lanes return about in the order in which they leave.
 */
export class ClaimPlan<Lane extends LaneTurn> {
  readonly #lines: ReadonlyArray<LaneLine<Lane>>
  readonly #running: JobsInProgress
  readonly #served: Array<Lane> = []
  /** Index of the first served lane that was not taken again. */
  #nextServed = 0

  /** `running` counts each job that the plan leads to: the caller adds it. */
  constructor(lines: ReadonlyArray<LaneLine<Lane>>, running: JobsInProgress) {
    this.#lines = lines
    this.#running = running
  }

  /** Takes the lane whose turn it is; `undefined` if all that are left are full. */
  take(): Lane | undefined {
    let lane = this.#takeAny()
    while (lane !== undefined && this.#running.isFull(lane)) lane = this.#takeAny()
    return lane
  }

  #takeAny(): Lane | undefined {
    let first = this.#served[this.#nextServed]
    let from: LaneLine<Lane> | undefined
    for (const line of this.#lines) {
      const { head } = line
      if (head === undefined || (first !== undefined && !comesBefore(head, first))) continue
      // Skips a full kind, which may have thousands of lanes.
      if (this.#running.kindIsFull(line.kind)) continue
      first = head
      from = line
    }
    if (from !== undefined) from.advance()
    else if (first !== undefined) this.#nextServed += 1
    return first
  }

  /** Records that a job of a lane was claimed, and returns the lane at its next turn. A lane that is not served does not return. */
  serve(lane: Lane): Lane {
    const next = { ...lane, turn: lane.turn + 1, since: lane.turn + 1 }
    let place = this.#served.length
    while (place > this.#nextServed && comesBefore(next, this.#served[place - 1] ?? next)) place -= 1
    this.#served.splice(place, 0, next)
    return next
  }
}
