import { type RawBuilder, sql } from "kysely"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import { isLimiting, type JobId, JobsInProgress, type StoreUnavailable } from "@kiln/core/domain"
import { type Claim, type ClaimRequest, UndecodableRow } from "@kiln/core/ports"
import type { Database } from "../Database.ts"
import { lostWorkerState } from "../migrations/initial/claims.ts"
import { isCorrupt, sqlState } from "../postgresErrors.ts"
import type { Session } from "../Session.ts"
import { type Given, query, statement } from "../Statement.ts"
import { type Claimed, pageOfLanes } from "./claimJobs.ts"
import {
  type ClaimedColumns,
  type ClaimedJob,
  claimedJobsOf,
  claimOf,
  type LaneOfJobs,
  type Rest,
} from "./claimedJob.ts"
import {
  type Added,
  addedOf,
  type Adding,
  type CreateJob,
  createJobCall,
  type CreateJobs,
  createJobsCall,
  parametersOf,
} from "./insertJobs.ts"
import type { Lanes, NewRow } from "./newRows.ts"
import { distinctKinds, fullProjectNames } from "./laneOrder.ts"
import type { LanePositions } from "./LanePositions.ts"

/** A lane from which jobs were asked for. */
interface Visited {
  readonly id: number
  /** The turn of its first job. */
  readonly start: number
  readonly count: number
  /** Whether it had fewer jobs than its share. */
  readonly isEmpty: boolean
}

interface Summary {
  readonly now: number
  readonly clock: number
  /** Whether a job whose turn it was has lost a worker. Nothing was claimed then. */
  readonly isLost: boolean
  /** Whether there may be more lanes. */
  readonly isPage: boolean
  readonly lanes: ReadonlyArray<Visited> | null
  /** The lanes of the claimed jobs. */
  readonly lanesOfJobs: ReadonlyArray<LaneOfJobs> | null
  readonly nextAt: number | null
}

/** The parameters of `claim_jobs`. */
type Asked = {
  claim: number
  repeated: boolean
  kinds: string
  most: number
  leaseMs: number
  room: ReadonlyArray<number>
  projectSlots: number
  held: string
  fullProjects: ReadonlyArray<string>
  turns: string
  clock: number
  page: number
  mayBeAlone: boolean
}

/** Some of the jobs, or at the end the summary. */
interface AnswerRow {
  readonly claimed: ClaimedColumns | null
  readonly rests: ReadonlyArray<Rest> | null
  readonly summary: Summary | null
}

/** Calls `claim_jobs`, which is defined in the migration. */
const claimCall = (asked: Given<Asked>, most: RawBuilder<number> = sql`${asked.most}::bigint`) =>
  sql<AnswerRow>`"kiln".claim_jobs(${asked.claim}::bigint, ${asked.repeated}::boolean, ${asked.kinds}::json, ${most},
    ${asked.leaseMs}::bigint, ${asked.room}::bigint[], ${asked.projectSlots}::bigint, ${asked.held}::json,
    ${asked.fullProjects}::text[], ${asked.turns}::json, ${asked.clock}::bigint, ${asked.page}::bigint,
    ${asked.mayBeAlone}::boolean)`.as<"claimed">(sql`claimed`)

const claimStatement = statement((asked: Given<Asked>) =>
  query.selectFrom(claimCall(asked)).selectAll().$castTo<AnswerRow>(),
)

/**
 * Adds jobs and then claims, in one transaction. Nothing is claimed if some jobs were not added, except by a repeated call, whose
 * own jobs are there already. The claim refers to the result of `create_jobs`, so it runs second and sees what that wrote.
 */
const createJobsAndClaim = statement((given: Given<CreateJobs & Asked>) => {
  const most = sql<number>`CASE WHEN (added.accepted IS NOT NULL AND added.refused IS NULL) OR ${given.repeated}::boolean
    THEN ${given.most}::bigint ELSE 0 END`
  return query
    .selectFrom(createJobsCall(given))
    .innerJoinLateral(claimCall(given, most), (join) => join.onTrue())
    .selectAll("claimed")
    .select(["added.accepted", "added.refused", "added.reason"])
    .$castTo<AnswerRow & Added>()
})

const createJobAndClaim = statement((given: Given<CreateJob & Asked>) => {
  const most = sql<number>`CASE WHEN added.accepted >= 0 OR ${given.repeated}::boolean
    THEN ${given.most}::bigint ELSE 0 END`
  return query
    .selectFrom(query.selectNoFrom(createJobCall(given).as("accepted")).as("added"))
    .innerJoinLateral(claimCall(given, most), (join) => join.onTrue())
    .selectAll("claimed")
    .select("added.accepted")
    .$castTo<AnswerRow & Pick<Added, "accepted">>()
})

const byTurn = (a: { turn: number; laneId: number }, b: { turn: number; laneId: number }): number =>
  a.turn - b.turn || a.laneId - b.laneId

/** The order in which lanes were served, one job each. */
const inOrder = (jobs: ReadonlyArray<ClaimedJob>, lanes: ReadonlyArray<Visited>): ReadonlyArray<ClaimedJob> => {
  const turns = new Map(lanes.map(({ id, start }) => [id, start]))
  if (lanes.length <= 1) return jobs
  return jobs
    .map((claimed) => {
      const turn = turns.get(claimed.lane.id) ?? 0
      turns.set(claimed.lane.id, turn + 1)
      return { claimed, turn, laneId: claimed.lane.id }
    })
    .sort(byTurn)
    .map(({ claimed }) => claimed)
}

/** A claim in one statement. */
export interface ClaimedAtOnce extends Claimed {
  /** Milliseconds until something may be claimable in a lane that was not searched to its end; `undefined` if there is nothing. */
  readonly nextInMs: number | undefined
  /** Claimed jobs that cannot be read, with their tokens. */
  readonly unreadable: ReadonlyArray<{ readonly jobId: JobId; readonly token: number }>
}

const resultOf = (request: ClaimRequest, answer: ReadonlyArray<AnswerRow>): ClaimedAtOnce | undefined => {
  const summary = answer.at(-1)?.summary
  if (summary == null) throw new TypeError("claim_jobs returned no summary")
  const { clock, isLost, isPage, lanes: visited, lanesOfJobs, nextAt, now } = summary
  const laneOf = new Map(lanesOfJobs?.map((lane) => [lane.id, lane]))
  const jobs = answer.flatMap(({ claimed, rests }) =>
    claimed === null ? [] : claimedJobsOf(claimed, rests ?? [], laneOf),
  )
  if (jobs.length === 0 && (isLost || isPage)) return undefined
  const lanes = visited ?? []
  const inProgress = new JobsInProgress(request.limits, [], request.worker)
  const claims: Array<Claim> = []
  const unreadable: Array<{ readonly jobId: JobId; readonly token: number }> = []
  for (const claimed of inOrder(jobs, lanes)) {
    inProgress.add(claimed.lane, claimed.claimableAt, now)
    try {
      claims.push(claimOf(claimed, now))
    } catch (error) {
      if (!(error instanceof UndecodableRow)) throw error
      unreadable.push({ jobId: claimed.id, token: claimed.token })
    }
  }
  return {
    claims,
    unreadable,
    abandoned: [],
    served: lanes.map(({ count, id, start }) => ({ id, start, count })),
    visited: lanes.map(({ id }) => id),
    exhausted: new Set(lanes.filter(({ isEmpty }) => isEmpty).map(({ id }) => id)),
    clock: lanes.reduce((last, { count, start }) => (count > 0 ? Math.max(last, start + count - 1) : last), clock),
    inProgress,
    claimedAt: now,
    // Covers the lanes beyond the page too, but not those of a mode without free slots: claiming these again would find nothing.
    nextInMs: nextAt === null ? undefined : Math.max(0, nextAt - now),
  }
}

const unlimited = Number.MAX_SAFE_INTEGER

const askedOf = (
  { leaseDurationMs, limit, limits, runnable, worker }: ClaimRequest,
  positions: LanePositions,
): Omit<Asked, keyof ClaimCall> => {
  const full = new JobsInProgress(limits, [], worker)
  return {
    kinds: JSON.stringify(
      distinctKinds(runnable)
        .filter((item) => !full.kindIsFull(item))
        .map(({ kind, kindVersion: version, mode }) => ({ kind, version, mode })),
    ),
    most: limit,
    // At least a millisecond: without a lease, the same claim would find the job claimable again.
    leaseMs: Math.max(1, Math.ceil(leaseDurationMs)),
    room: [worker?.free.sandbox ?? unlimited, worker?.free.live ?? unlimited],
    projectSlots: worker?.perProject ?? 0,
    held: JSON.stringify(worker === undefined || worker.perProject === 0 ? [] : worker.held),
    fullProjects: fullProjectNames(full),
    turns: JSON.stringify(positions.turns()),
    clock: positions.clock(0),
    page: pageOfLanes({ limit }),
    mayBeAlone: positions.mayBeAlone,
  }
}

/** Identifies a call, so that it can be repeated if its answer was lost. */
export interface ClaimCall {
  readonly claim: number
  readonly repeated: boolean
}

/** The same in the caller's session. */
export const claimInSession = async (
  session: Session,
  positions: LanePositions,
  request: ClaimRequest,
  call: ClaimCall,
): Promise<ClaimedAtOnce | undefined> =>
  resultOf(request, await session.all(claimStatement, { ...askedOf(request, positions), ...call }))

/** Whether `claim_jobs` may decide a claim: no concurrency limits of the installation apply, and no rates. */
export const isDecidedAtOnce = ({ limit, limits, worker }: ClaimRequest): boolean =>
  !isLimiting(limits) && limit > 0 && worker?.quotas === undefined

/** A number for a new claim. */
export const nextClaim = Random.nextIntBetween(1, Number.MAX_SAFE_INTEGER)

/** Whether only the rules can decide the claim that failed so. Nothing was written. */
export const needsRules = ({ cause }: StoreUnavailable): boolean =>
  isCorrupt(cause) || sqlState(cause) === lostWorkerState

/**
 * Claims in one round trip and returns what was claimed. Returns `undefined`, with nothing claimed, if the claim is not one that
 * `claim_jobs` decides: concurrency limits of the installation, lost workers, many lanes without jobs, corrupt pages.
 */
export const claimAtOnce = (
  db: Database,
  positions: LanePositions,
  request: ClaimRequest,
): Effect.Effect<ClaimedAtOnce | undefined, StoreUnavailable> =>
  isDecidedAtOnce(request)
    ? Effect.flatMap(nextClaim, (claim) =>
        db.writeAtOnce("JobStore.claimJobs", 1, (session, repeated) =>
          claimInSession(session, positions, request, { claim, repeated }),
        ),
      ).pipe(Effect.catchIf(needsRules, () => Effect.undefined))
    : Effect.undefined

/** What adding and claiming in one statement came to. */
export interface AddedAndClaimed extends Added {
  readonly claimed: ClaimedAtOnce | undefined
}

/** Jobs to be added, and how. */
interface Addition {
  readonly rows: ReadonlyArray<NewRow>
  readonly lanes: Lanes
  readonly how: Adding
}

/** Adds jobs and claims, in one statement. */
export const addAndClaim = async (
  session: Session,
  { how, lanes, rows }: Addition,
  positions: LanePositions,
  request: ClaimRequest,
  call: ClaimCall,
): Promise<AddedAndClaimed> => {
  const asked = { ...askedOf(request, positions), ...call }
  const given = parametersOf(session, rows, lanes, how)
  if ("one" in given) {
    const answer = await session.all(createJobAndClaim, { ...given.one, ...asked })
    return { ...addedOf(answer[0]?.accepted ?? null), claimed: resultOf(request, answer) }
  }
  const answer = await session.all(createJobsAndClaim, { ...given.list, ...asked })
  const [added] = answer
  if (added === undefined) throw new TypeError("create_jobs returned no row")
  const { accepted, reason, refused } = added
  return { accepted, refused, reason, claimed: resultOf(request, answer) }
}
