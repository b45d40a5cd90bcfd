import type { ConcurrencyLimits, Job, JobId } from "@kiln/core/domain"
import { applyEvent, isClaimable, isOverdue, lostTooMany, projectLimit, rankOf } from "@kiln/core/rules"
import type { Claim, ClaimRequest, ClaimResult } from "@kiln/core/ports"
import { type Lane, type MemoryState, putJob } from "../MemoryState.ts"

/** A lane with its claimable jobs; the last one is claimed first. */
interface Line {
  readonly lane: Lane
  readonly claimable: Array<Job>
}

/**
 * Claims jobs by start-time fair queueing. A lane is served at its own virtual time, or at that of the last lane served if that
 * is later, and then moves on by one. A lane that had nothing claimable for a while (empty, deferred, gated) therefore
 * accumulates no credit, and a project with few jobs waits for at most one job of each other lane. A lane at its limit, or
 * without a free slot in the worker, is skipped like an empty one.
 */
export const claimJobs = (state: MemoryState, request: ClaimRequest, now: number): ClaimResult => {
  const lanes = [...state.lanes.values()].filter((lane) =>
    request.runnable.some(
      ({ kind, kindVersion, mode }) => kind === lane.kind && kindVersion === lane.kindVersion && mode === lane.mode,
    ),
  )
  const hasSlot = ({ kind, mode, projectId }: Lane): boolean => {
    if (request.worker === undefined) return true
    const { free, held, perProject, quotas } = request.worker
    const claimed = claims.filter(({ job }) => job.mode === mode)
    if (claimed.length >= free[mode]) return false
    const quota = quotas?.find((one) => one.kind === kind && one.mode === mode)?.count
    if (quota !== undefined && claimed.filter(({ job }) => job.kind === kind).length >= quota) return false
    const before = held.filter((one) => one.mode === mode && one.projectId === projectId)
    const ofProject = before.reduce((sum, { count }) => sum + count, 0)
    return perProject === 0 || ofProject + claimed.filter(({ job }) => job.projectId === projectId).length < perProject
  }
  const hasRoom = ({ lane }: Line): boolean => hasSlot(lane) && roomAt(state, lane, request.limits, now) === now
  const lines = lanes.map((lane) => ({ lane, claimable: claimableOf(state, lane, now) }))
  const claims: Array<Claim> = []
  const abandoned: Array<JobId> = []
  while (claims.length < request.limit) {
    const line = nextLine(state, lines.filter(hasRoom))
    const job = line?.claimable.pop()
    if (line === undefined || job === undefined) break
    if (lostTooMany(job, request.maxLostWorkers)) {
      const failed = applyEvent(job, { event: "abandoned" }, now)
      if (failed !== undefined) abandoned.push(putJob(state, { ...job, ...failed }).id)
    } else {
      const served = applyEvent(job, { event: "claimed", leaseDurationMs: request.leaseDurationMs }, now)
      if (served === undefined) continue
      claims.push(claimOf(state, putJob(state, { ...job, ...served }), now))
      state.virtualTime = startOf(state, line.lane)
      line.lane.virtualTime = state.virtualTime + 1
    }
  }
  const more = lines.some((line) => line.claimable.length > 0 && hasRoom(line))
  return { claims, abandoned, nextInMs: more ? 0 : nextInMs(state, lanes.filter(hasSlot), request.limits, now) }
}

const startOf = (state: MemoryState, lane: Lane): number => Math.max(lane.virtualTime, state.virtualTime)

/**
 * Returns the first of the lanes to be served earliest. Of those that the clock has passed, this is the one that was served longest ago:
 * lanes that wait for room take turns, too. `lines` are in the order of the lanes' creation.
 */
const nextLine = (state: MemoryState, lines: ReadonlyArray<Line>): Line | undefined => {
  let next: Line | undefined
  for (const line of lines) {
    if (line.claimable.length === 0) continue
    if (next === undefined) next = line
    else {
      const later =
        startOf(state, line.lane) - startOf(state, next.lane) || line.lane.virtualTime - next.lane.virtualTime
      if (later < 0) next = line
    }
  }
  return next
}

const unfinishedOf = (state: MemoryState, lane: Lane): ReadonlyArray<Job> =>
  [...lane.unfinished].flatMap((id) => state.jobs.get(id) ?? [])

const claimableOf = (state: MemoryState, lane: Lane, now: number): Array<Job> =>
  unfinishedOf(state, lane)
    .filter((job) => isClaimable(job, now))
    .sort(
      (a, b) =>
        rankOf(a.priority) - rankOf(b.priority) ||
        (b.claimableAt ?? 0) - (a.claimableAt ?? 0) ||
        (a.id < b.id ? 1 : -1),
    )

const claimOf = (state: MemoryState, job: Job, now: number): Claim => ({
  job,
  token: job.token,
  leaseRemainingMs: (job.claimableAt ?? now) - now,
  upload: (job.uploadId === null ? undefined : state.uploads.get(job.uploadId)) ?? null,
})

/**
 * Returns the milliseconds until the next lease or delay ends and there is room. A job whose deadline comes first never becomes
 * claimable.
 */
const nextInMs = (
  state: MemoryState,
  lanes: ReadonlyArray<Lane>,
  limits: ClaimRequest["limits"],
  now: number,
): number | undefined => {
  const times = lanes.flatMap((lane) => {
    const room = roomAt(state, lane, limits, now)
    return unfinishedOf(state, lane).flatMap(({ claimableAt, deadlineAt }) => {
      if (claimableAt === null) return []
      const at = Math.max(claimableAt, room)
      return at > now && !isOverdue({ deadlineAt }, at) ? [at] : []
    })
  })
  return times.length === 0 ? undefined : times.reduce((a, b) => Math.min(a, b)) - now
}

/** Returns when a lane has room under its limits if no job ends before its lease: `now` if it already has room. */
const roomAt = (state: MemoryState, lane: Lane, limits: ConcurrencyLimits, now: number): number => {
  const { perKind } = limits
  const ofKind = Object.hasOwn(perKind, lane.kind) ? perKind[lane.kind] : undefined
  const ofProject = projectLimit(limits, lane.projectId) || undefined
  return Math.max(
    ofKind === undefined ? now : roomAmong(state, ofKind, now, (other) => isOfKind(other, lane)),
    ofProject === undefined ? now : roomAmong(state, ofProject, now, (other) => isOfProject(other, lane)),
  )
}

const isOfKind = (other: Lane, lane: Lane): boolean => other.kind === lane.kind && other.mode === lane.mode
const isOfProject = (other: Lane, lane: Lane): boolean => other.projectId === lane.projectId && other.mode === lane.mode

const roomAmong = (state: MemoryState, limit: number, now: number, counts: (lane: Lane) => boolean): number => {
  const leaseEnds = [...state.lanes.values()]
    .filter(counts)
    .flatMap(({ unfinished }) => [...unfinished])
    .flatMap((id) => leaseEnd(state.jobs.get(id), now))
  return leaseEnds.length < limit ? now : Math.min(...leaseEnds)
}

/** Returns the end of a running job's lease. */
const leaseEnd = (job: Job | undefined, now: number): ReadonlyArray<number> =>
  job?.held === true && job.claimableAt !== null && job.claimableAt > now ? [job.claimableAt] : []
