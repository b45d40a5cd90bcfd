import { type Job, type JobId, maxAhead, type QueuePlace, type WaitRun } from "@kiln/core/domain"
import { isParked, labelsOf, parkedRun, rankOf } from "@kiln/core/rules"
import {
  type DepthState,
  type FinishedJob,
  type JobCount,
  JobDirectory,
  type JobList,
  type JobPage,
  type JobQuery,
  type JobSummary,
  type QueueDepth,
} from "@kiln/core/ports"
import { type MemoryState, step } from "./MemoryState.ts"

/** The reference model of `JobDirectory`. */
export const makeMemoryJobDirectory = (state: MemoryState): JobDirectory["Service"] =>
  JobDirectory.of({
    listJobs: (page) => step(() => listJobs(state, page)),
    countJobs: ({ finishedWithinMs, labels, projectId, unfinished = true }) =>
      step((now) =>
        countByStatus(
          [...state.jobs.values()].filter(
            (job) =>
              (projectId === undefined || job.projectId === projectId) &&
              hasLabels(job, labels) &&
              (job.finishedAt === null ? unfinished : job.finishedAt > now - finishedWithinMs),
          ),
          now,
        ),
      ),
    measureQueue: ({ limit, projectId }) =>
      step((now) =>
        measureQueue(
          [...state.jobs.values()].filter((job) => projectId === undefined || job.projectId === projectId),
          limit,
          now,
        ),
      ),
    listFinished: ({ limit, withinMs }) =>
      step((now) =>
        [...state.jobs.values()]
          .flatMap((job) => finishedJob(job) ?? [])
          .filter(({ finishedAt }) => finishedAt > now - withinMs)
          .sort((one, other) => other.finishedAt - one.finishedAt)
          .slice(0, limit),
      ),
    readJobs: (jobIds) => step(() => jobIds.map((id) => state.jobs.get(id))),
    findPlace: (jobId) => step((now) => findPlace(state, jobId, now)),
    listKinds: step(() => [...new Set([...state.lanes.values()].map(({ kind }) => kind))].sort()),
    listWaits: (jobIds) => step(() => jobIds.map((id) => listWaits(state, id))),
    listAttempts: (jobId) => step(() => (state.jobs.has(jobId) ? (state.attempts.get(jobId) ?? []) : undefined)),
  })

const listWaits = (state: MemoryState, jobId: JobId): ReadonlyArray<WaitRun> | undefined => {
  const job = state.jobs.get(jobId)
  if (job === undefined) return undefined
  const runs = state.waits.get(jobId) ?? []
  const parked = state.parked.get(jobId)
  return isParked(parked, job) ? [...runs, parkedRun(parked, job.attempts)] : runs
}

type Place = Pick<Job, "createdAt" | "id">

/** Newest first. */
const compare = (a: Place, b: Place): number => b.createdAt - a.createdAt || (a.id < b.id ? 1 : a.id > b.id ? -1 : 0)

const cursorOf = ({ createdAt, id }: Place): string => `${createdAt} ${id}`

const placeOf = (cursor: string): Place => {
  const [, createdAt, id] = /^(\d{1,16}) (job_[0-9a-z]+)$/.exec(cursor) ?? []
  if (createdAt === undefined || id === undefined) throw new TypeError("invalid cursor")
  return { createdAt: Number(createdAt), id: id as Job["id"] }
}

const listJobs = (state: MemoryState, { after, limit, ...query }: JobPage): JobList => {
  const place = after === undefined ? undefined : placeOf(after)
  const jobs = [...state.jobs.values()]
    .filter((job) => matches(job, query) && (place === undefined || compare(place, job) < 0))
    .sort(compare)
  const last = jobs[limit - 1]
  const isLast = last === undefined || jobs.length <= limit
  return { jobs: jobs.slice(0, limit).map(summaryOf), next: isLast ? undefined : cursorOf(last) }
}

const matches = (job: Job, query: JobQuery): boolean =>
  (query.projectId === undefined || job.projectId === query.projectId) &&
  (query.kind === undefined || job.kind === query.kind) &&
  (query.mode === undefined || job.mode === query.mode) &&
  (query.status === undefined || job.status === query.status) &&
  (query.keyId === undefined || job.keyId === query.keyId) &&
  (query.errorCode === undefined || job.errorCode === query.errorCode) &&
  (query.createdFrom === undefined || job.createdAt >= query.createdFrom) &&
  (query.createdTo === undefined || job.createdAt < query.createdTo) &&
  hasLabels(job, query.labels)

const hasLabels = ({ metadata }: Job, labels: ReadonlyArray<string> = []): boolean => {
  if (labels.length === 0) return true
  const own = labelsOf(metadata)
  return labels.every((label) => own.includes(label))
}

const summaryOf = (job: Job): JobSummary => ({
  id: job.id,
  projectId: job.projectId,
  keyId: job.keyId,
  mode: job.mode,
  kind: job.kind,
  kindVersion: job.kindVersion,
  priority: job.priority,
  status: job.status,
  errorCode: job.errorCode,
  warningCode: job.warningCode,
  retained: job.retained,
  metadata: job.metadata,
  held: job.held,
  phaseStartedAt: job.phaseStartedAt,
  attempts: job.attempts,
  failures: job.failures,
  lostWorkers: job.lostWorkers,
  createdAt: job.createdAt,
  claimableAt: job.claimableAt,
  finishedAt: job.finishedAt,
})

const finishedJob = (job: Job): FinishedJob | undefined => {
  const { createdAt, errorCode, finishedAt, id, kind, mode, projectId, ranMs, status, waitedMs } = job
  if (finishedAt === null || (status !== "done" && status !== "failed")) return undefined
  return { id, projectId, kind, mode, status, errorCode, createdAt, waitedMs, ranMs, finishedAt }
}

const countByStatus = (jobs: ReadonlyArray<Job>, now: number): ReadonlyArray<JobCount> => {
  const counts = new Map<string, JobCount>()
  for (const { claimableAt, kind, mode, status: stored } of jobs) {
    const status = stored === "queued" && claimableAt !== null && claimableAt > now ? "delayed" : stored
    const key = `${kind} ${mode} ${status}`
    counts.set(key, { kind, mode, status, count: (counts.get(key)?.count ?? 0) + 1 })
  }
  return [...counts.keys()].sort().flatMap((key) => counts.get(key) ?? [])
}

/** Which number of a `QueueDepth` counts an unfinished job. */
const depthState = ({ claimableAt, held, status }: Job, now: number): DepthState => {
  if (claimableAt !== null && claimableAt <= now) return "ready"
  if (held) return "running"
  return status === "queued" ? "delayed" : "retrying"
}

const emptyDepth = { ready: 0, delayed: 0, retrying: 0, running: 0, oldestReadyMs: 0 }

const findPlace = (state: MemoryState, jobId: JobId, now: number): QueuePlace | undefined => {
  const job = state.jobs.get(jobId)
  if (job === undefined || job.claimableAt === null) return undefined
  const unfinished = [...state.jobs.values()].filter((other) => other.mode === job.mode && other.claimableAt !== null)
  const running = unfinished.filter((other) => depthState(other, now) === "running")
  const ahead = unfinished.filter(
    (other) =>
      !other.held &&
      depthState(other, now) === "ready" &&
      other.projectId === job.projectId &&
      other.kind === job.kind &&
      other.kindVersion === job.kindVersion &&
      isServedBefore(other, job),
  )
  return {
    now,
    ahead: Math.min(maxAhead, ahead.length),
    running: {
      kind: running.filter(({ kind }) => kind === job.kind).length,
      project: running.filter(({ projectId }) => projectId === job.projectId).length,
      all: running.length,
    },
  }
}

/** By priority, then by the time since when it may be claimed, then by id. */
const isServedBefore = (one: Job, other: Job): boolean => {
  const byRank = rankOf(one.priority) - rankOf(other.priority)
  if (byRank !== 0) return byRank > 0
  const byTime = (one.claimableAt ?? 0) - (other.claimableAt ?? 0)
  return byTime < 0 || (byTime === 0 && one.id < other.id)
}

const measureQueue = (jobs: ReadonlyArray<Job>, limit: number, now: number): ReadonlyArray<QueueDepth> => {
  const depths = new Map<string, QueueDepth>()
  const unfinished = jobs.filter((job) => job.claimableAt !== null)
  for (const [index, job] of unfinished.entries()) {
    const { claimableAt, kind, mode } = job
    const state = depthState(job, now)
    const readyMs = state === "ready" ? now - (claimableAt ?? now) : 0
    const before = depths.get(`${kind} ${mode}`) ?? { kind, mode, ...emptyDepth }
    const counted = index < limit ? { [state]: before[state] + 1 } : {}
    depths.set(`${kind} ${mode}`, { ...before, ...counted, oldestReadyMs: Math.max(before.oldestReadyMs, readyMs) })
  }
  return [...depths.values()]
    .filter(
      ({ delayed, oldestReadyMs, ready, retrying, running }) =>
        ready + delayed + retrying + running + oldestReadyMs > 0,
    )
    .toSorted((one, other) => (`${one.kind} ${one.mode}` < `${other.kind} ${other.mode}` ? -1 : 1))
}
