import { type ConcurrencyLimits, type Job, projectLimit } from "@kiln/core/domain"
import type { Lane, MemoryState } from "../MemoryState.ts"

/** Returns when a lane has room under its limits if no job ends before its lease: `now` if it already has room. */
export const roomAt = (state: MemoryState, lane: Lane, limits: ConcurrencyLimits, now: number): number => {
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
