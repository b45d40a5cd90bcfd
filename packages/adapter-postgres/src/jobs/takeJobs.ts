import { type RawBuilder, sql } from "kysely"
import type { JobId, JobMode, ProjectId } from "@kiln/core/domain"
import { isLimiting, JobsInProgress } from "@kiln/core/rules"
import type { Claim, ClaimRequest, Runnable } from "@kiln/core/ports"
import { UndecodableRow } from "@kiln/sql-store"
import type { Session } from "../connection/Session.ts"
import { type Given, query, statement } from "../Statement.ts"
import {
  type ClaimedColumns,
  type ClaimedJob,
  claimedJobsOf,
  claimOf,
  type LaneOfJobs,
  type Rest,
} from "./claimedJob.ts"
import type { ClaimedLanes, LanePositions } from "./LanePositions.ts"

/** A lane from which jobs were asked for. */
interface Visited {
  readonly id: number
  /** The turn of its first job. */
  readonly start: number
  readonly count: number
  /** Whether it had fewer jobs than its share. */
  readonly isEmpty: boolean
}

/** A kind or a project that has as many jobs in progress as a limit of the installation allows. The other field is `null`. */
export interface Full {
  readonly mode: JobMode
  readonly kind: string | null
  readonly projectId: ProjectId | null
  /** When the first of their leases ends. */
  readonly firstEnd: number
}

interface Summary {
  readonly now: number
  readonly clock: number
  /** Whether there may be more lanes. */
  readonly isPage: boolean
  readonly lanes: ReadonlyArray<Visited> | null
  /** The lanes of the claimed jobs. */
  readonly lanesOfJobs: ReadonlyArray<LaneOfJobs> | null
  readonly nextAt: number | null
  readonly full?: ReadonlyArray<Full> | null
  readonly abandoned?: ReadonlyArray<JobId> | null
}

/** The parameters of `take_jobs_in_turn`. */
export type Asked = {
  claim: number
  repeated: boolean
  kinds: string
  most: number
  leaseMs: number
  maxLost: number
  reads: boolean
  mayBeAlone: boolean
  modeRoom: ReadonlyArray<number>
  kindRoom: ReadonlyArray<number>
  projectSlots: number
  held: string
  kindLimits: string | null
  projectLimit: number
  ownLimits: string
  limitsCross: boolean
  fullProjects: ReadonlyArray<string>
  turns: string
  clock: number
  skipped: ReadonlyArray<number>
  page: number
  turnMs: string | null
}

/** Some of the jobs, or at the end the summary. */
export interface AnswerRow {
  readonly claimed: ClaimedColumns | null
  readonly rests: ReadonlyArray<Rest> | null
  readonly summary: Summary | null
}

/** Calls `take_jobs_in_turn`, which is defined in a migration. */
export const takeCall = (asked: Given<Asked>, most: RawBuilder<number> = sql`${asked.most}::bigint`) =>
  sql<AnswerRow>`"kiln".take_jobs_in_turn(${asked.claim}::bigint, ${asked.repeated}::boolean, ${asked.kinds}::json, ${most},
    ${asked.leaseMs}::bigint, ${asked.maxLost}::bigint, ${asked.reads}::boolean, ${asked.mayBeAlone}::boolean,
    ${asked.modeRoom}::bigint[], ${asked.kindRoom}::bigint[], ${asked.projectSlots}::bigint, ${asked.held}::jsonb,
    ${asked.kindLimits}::jsonb, ${asked.projectLimit}::bigint, ${asked.ownLimits}::jsonb, ${asked.limitsCross}::boolean,
    ${asked.fullProjects}::text[], ${asked.turns}::jsonb, ${asked.clock}::bigint, ${asked.skipped}::bigint[],
    ${asked.page}::bigint, ${asked.turnMs}::text)`.as<"claimed">(sql`claimed`)

const takeStatement = statement((asked: Given<Asked>) =>
  query.selectFrom(takeCall(asked)).selectAll().$castTo<AnswerRow>(),
)

/** Identifies a call, so that it can be repeated if its answer was lost. */
export interface ClaimCall {
  readonly claim: number
  readonly repeated: boolean
}

/** How a claim is made. */
export interface Manner {
  /** Whether it waits for its turn among claims with limits. */
  readonly waits: boolean
  /** Whether it reads the jobs. Where a page is damaged, a claim can do without. */
  readonly reads: boolean
  /** Lanes that were searched already. */
  readonly skipped: ReadonlyArray<number>
}

export const usually: Manner = { waits: true, reads: true, skipped: [] }

/** Lanes that a claim looks at beyond one for each job. */
const spareLanes = 8

/** More jobs than a claim asks for. */
const unlimited = Number.MAX_SAFE_INTEGER

/** Lanes of the same kind, version and mode. */
const groupName = ({ kind, kindVersion, mode }: Pick<Runnable, "kind" | "kindVersion" | "mode">): string =>
  `${kindVersion} ${mode} ${kind}`

const kindName = ({ kind, mode }: Pick<Runnable, "kind" | "mode">): string => `${mode} ${kind}`

/**
 * The kinds that are not full, each version once, with their lane that was served last, and what the worker may start of each kind and
 * mode.
 */
const kindsOf = ({ runnable, worker }: ClaimRequest, own: JobsInProgress, positions: LanePositions) => {
  const room = new Map<string, number>()
  for (const { count, kind, mode } of worker?.quotas ?? []) room.set(kindName({ kind, mode }), count)
  const places = new Map<string, number>()
  const kinds = new Map<string, { kind: string; version: number; mode: JobMode; place: number; after_lane: number }>()
  for (const item of runnable) {
    if (own.kindIsFull(item)) continue
    const name = kindName(item)
    const place = places.get(name) ?? places.size + 1
    places.set(name, place)
    const { kind, kindVersion: version, mode } = item
    const group = groupName(item)
    kinds.set(group, { kind, version, mode, place, after_lane: positions.after(group) })
  }
  return { kinds: [...kinds.values()], kindRoom: [...places.keys()].map((name) => room.get(name) ?? unlimited) }
}

/** Whether a job can count towards the limit or rate of a kind and the limit of a project. */
const limitsCross = ({ limits: { perKind, perProject, projects = {} }, worker }: ClaimRequest): boolean => {
  const limitsKinds = Object.keys(perKind).length > 0 || (worker?.quotas ?? []).length > 0
  return limitsKinds && (perProject > 0 || (worker?.perProject ?? 0) > 0 || Object.keys(projects).length > 0)
}

/** Projects that hold all the slots of the worker that they may, each as `mode id`. */
const ownFullNames = (own: JobsInProgress): ReadonlyArray<string> =>
  (["sandbox", "live"] as const).flatMap((mode) => own.fullProjects(mode).map((id) => `${mode} ${id}`))

/** The worker's own slots. */
const ownSlots = ({ worker }: ClaimRequest): JobsInProgress =>
  new JobsInProgress({ perKind: {}, perProject: 0 }, [], worker)

const heldBy = (worker: ClaimRequest["worker"]): Readonly<Record<string, number>> => {
  const held = new Map<string, number>()
  if (worker !== undefined && worker.perProject > 0)
    for (const { count, mode, projectId } of worker.held)
      held.set(`${mode} ${projectId}`, count + (held.get(`${mode} ${projectId}`) ?? 0))
  return Object.fromEntries(held)
}

export const askedOf = (
  session: Session,
  request: ClaimRequest,
  positions: LanePositions,
  { reads, skipped, waits }: Manner,
): Omit<Asked, keyof ClaimCall> => {
  const { leaseDurationMs, limit, limits, maxLostWorkers, worker } = request
  const own = ownSlots(request)
  const { kindRoom, kinds } = kindsOf(request, own, positions)
  return {
    kinds: JSON.stringify(kinds),
    most: limit,
    // At least a millisecond: without a lease, the same claim would find the job claimable again.
    leaseMs: Math.max(1, Math.ceil(leaseDurationMs)),
    maxLost: Math.max(1, maxLostWorkers),
    reads,
    mayBeAlone: positions.mayBeAlone && reads && skipped.length === 0,
    modeRoom: [worker?.free.sandbox ?? unlimited, worker?.free.live ?? unlimited],
    kindRoom,
    projectSlots: worker?.perProject ?? 0,
    held: JSON.stringify(heldBy(worker)),
    kindLimits: isLimiting(limits) ? JSON.stringify(limits.perKind) : null,
    projectLimit: limits.perProject,
    ownLimits: JSON.stringify(limits.projects ?? {}),
    limitsCross: limitsCross(request),
    fullProjects: ownFullNames(own),
    turns: JSON.stringify(Object.fromEntries(positions.turns().map(({ id, turn }) => [id, turn]))),
    clock: positions.clock(0),
    skipped,
    // Each lane costs time. Most have a job, and some turn out to be empty.
    page: Math.max(limit, Math.min(32, limit + spareLanes + positions.inFront)),
    turnMs: waits ? String(session.lockTimeoutMs) : null,
  }
}

/** The result of a claim, and what to save about its lanes. */
export interface Taken extends ClaimedLanes {
  readonly claims: ReadonlyArray<Claim>
  /** Claimed jobs that cannot be read, with their tokens. */
  readonly unreadable: ReadonlyArray<{ readonly jobId: JobId; readonly token: number }>
  /** Jobs that have lost too many workers. They are to be failed. */
  readonly abandoned: ReadonlyArray<JobId>
  /** The worker's own slots after the claim. */
  readonly own: JobsInProgress
  /** Kinds and projects at a limit of the installation. */
  readonly full: ReadonlyArray<Full>
  /** Store time, Unix milliseconds. */
  readonly claimedAt: number
  /** Milliseconds until something may be claimable in a lane that was not searched to its end; `undefined` if there is nothing. */
  readonly nextInMs: number | undefined
  /** Whether there may be more lanes than were searched. */
  readonly isPage: boolean
}

interface Turn {
  readonly turn: number
  /** Decides between lanes of the same turn. */
  readonly place: number
}

const byTurn = (a: Turn, b: Turn): number => a.turn - b.turn || a.place - b.place

/** The order in which lanes were served, one job each. Those at the clock came in the order of the summary, others by their creation. */
const inOrder = (
  jobs: ReadonlyArray<ClaimedJob>,
  lanes: ReadonlyArray<Visited>,
  clock: number,
): ReadonlyArray<ClaimedJob> => {
  if (lanes.length <= 1) return jobs
  const turns = new Map(lanes.map(({ id, start }) => [id, start]))
  const places = new Map(lanes.map(({ id }, place) => [id, place]))
  return jobs
    .map((claimed) => {
      const turn = turns.get(claimed.lane.id) ?? 0
      turns.set(claimed.lane.id, turn + 1)
      return { claimed, turn, place: (turn > clock ? undefined : places.get(claimed.lane.id)) ?? claimed.lane.id }
    })
    .sort(byTurn)
    .map(({ claimed }) => claimed)
}

/** When a limit of the installation that holds back a lane for which the worker has room makes room itself, because a lease ends. */
export const firstRoomAt = ({ full, own }: Rooms, runnable: ReadonlyArray<Pick<Runnable, "kind" | "mode">>): number => {
  if (full.length === 0) return Infinity
  const open = runnable.filter((item) => !own.kindIsFull(item))
  const holdsBack = ({ kind, mode, projectId }: Full): boolean =>
    open.some((item) => item.mode === mode && (kind === null || item.kind === kind)) &&
    (projectId === null || !own.fullProjects(mode).includes(projectId))
  return full.reduce((first, one) => (holdsBack(one) ? Math.min(first, one.firstEnd) : first), Infinity)
}

type Rooms = Pick<Taken, "full" | "own">

/** Projects of which no further job may be claimed, each as `mode id`. */
export const fullNames = ({ full, own }: Rooms): ReadonlyArray<string> => [
  ...ownFullNames(own),
  ...full.flatMap(({ mode, projectId }) => (projectId === null ? [] : [`${mode} ${projectId}`])),
]

/** Whether further jobs of a kind may be claimed. */
export const kindIsOpen = ({ full, own }: Rooms, { kind, mode }: Pick<Runnable, "kind" | "mode">): boolean =>
  !own.kindIsFull({ kind, mode }) && !full.some((one) => one.kind === kind && one.mode === mode)

/** The answer of `take_jobs_in_turn`; `undefined` if it was not this claim's turn. */
export const takenOf = (request: ClaimRequest, answer: ReadonlyArray<AnswerRow>): Taken | undefined => {
  const summary = answer.at(-1)?.summary
  if (summary == null) return undefined
  const { abandoned, clock, full, isPage, lanes: visited, lanesOfJobs, nextAt, now } = summary
  const laneOf = new Map(lanesOfJobs?.map((lane) => [lane.id, lane]))
  const jobs = answer.flatMap(({ claimed, rests }) =>
    claimed === null ? [] : claimedJobsOf(claimed, rests ?? [], laneOf),
  )
  const lanes = visited ?? []
  const own = ownSlots(request)
  const claims: Array<Claim> = []
  const unreadable: Array<{ readonly jobId: JobId; readonly token: number }> = []
  for (const claimed of inOrder(jobs, lanes, clock)) {
    own.add(claimed.lane, claimed.claimableAt, now)
    try {
      claims.push(claimOf(claimed, now))
    } catch (error) {
      if (!(error instanceof UndecodableRow)) throw error
      unreadable.push({ jobId: claimed.id, token: claimed.token })
    }
  }
  const nextAtOrRoom = Math.min(nextAt ?? Infinity, firstRoomAt({ full: full ?? [], own }, request.runnable))
  return {
    claims,
    unreadable,
    abandoned: abandoned ?? [],
    served: lanes.flatMap(({ count, id, start }) => {
      const lane = laneOf.get(id)
      return count === 0 || lane === undefined ? [] : [{ id, start, count, group: groupName(lane) }]
    }),
    visited: lanes.map(({ id }) => id),
    exhausted: new Set(lanes.filter(({ isEmpty }) => isEmpty).map(({ id }) => id)),
    clock: lanes.reduce((last, { count, start }) => (count > 0 ? Math.max(last, start + count - 1) : last), clock),
    own,
    full: full ?? [],
    claimedAt: now,
    // Covers the lanes beyond the page too, but not those of a mode without free slots: claiming these again would find nothing.
    nextInMs: nextAtOrRoom === Infinity ? undefined : Math.max(0, nextAtOrRoom - now),
    isPage,
    hidOthers: false,
  }
}

/** Claims in one statement. */
export const takeJobs = async (
  session: Session,
  positions: LanePositions,
  request: ClaimRequest,
  call: ClaimCall,
  manner: Manner = usually,
): Promise<Taken> => {
  const asked = { ...askedOf(session, request, positions, manner), ...call }
  const taken = takenOf(request, await session.all(takeStatement, asked))
  if (taken === undefined) throw new TypeError("take_jobs_in_turn returned no summary")
  return taken
}

/** Both results of two searches, of which the first claimed nothing. */
export const afterNothing = (before: Taken, found: Taken): Taken => ({
  ...found,
  abandoned: [...before.abandoned, ...found.abandoned],
  served: [...before.served, ...found.served],
  visited: [...before.visited, ...found.visited],
  exhausted: new Set([...before.exhausted, ...found.exhausted]),
  hidOthers: true,
})
