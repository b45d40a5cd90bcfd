import type { ConcurrencyLimits, Job } from "@kiln/core/domain"
import type { Lane, MemoryState } from "../MemoryState.ts"

/** When a lane has room under its limits, if nothing ends before its lease does: `now` where it has room already. */
export const roomAt = (state: MemoryState, lane: Lane, limits: ConcurrencyLimits, now: number): number => {
  const { perKind, perProject } = limits
  const ofKind = Object.hasOwn(perKind, lane.kind) ? perKind[lane.kind] : undefined
  const ofProject = perProject === 0 ? undefined : perProject
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

/** Of a job that is in hand. */
const leaseEnd = (job: Job | undefined, now: number): ReadonlyArray<number> =>
  job?.held === true && job.claimableAt !== null && job.claimableAt > now ? [job.claimableAt] : []
