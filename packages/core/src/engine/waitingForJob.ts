import * as Effect from "effect/Effect"
import { type Job, type ProjectId, submittedOf, type WaitRun, withForcedOff } from "../domain/index.ts"
import { heldBack, type QueuePlace, waitingFor } from "../domain/WaitingFor.ts"
import { childLabel } from "../domain/Child.ts"
import { installedKinds } from "../kinds/installedKinds.ts"
import { JobDirectory, JobStore, Switchboard } from "../ports/index.ts"
import { EngineConfig } from "./EngineConfig.ts"
import { countUnfinished, readPrerequisites } from "./prerequisites.ts"

/** The facts that hold for all jobs of a kind: the board, the workers, and the switches of the kind if this process knows it. */
const readKindFacts = Effect.gen(function* () {
  const switchboard = yield* Switchboard
  const { forcedOff } = yield* EngineConfig
  const kinds = yield* installedKinds
  const board = withForcedOff(yield* switchboard.readBoard, forcedOff)
  const workers = yield* switchboard.listWorkers
  return (kind: string) => ({
    board,
    workers,
    switches: kinds.find(({ name }) => name === kind)?.gate.switches ?? [],
  })
})

const unfinished: ReadonlySet<string> = new Set(["queued", "delayed", "processing"])

/** Counts the jobs that a job waits for, if it waits for its children or prerequisites. */
const countJobs = Effect.fnUntraced(function* (job: Job, waited: WaitRun | undefined) {
  if (waited === undefined || waited.lastAttempt < job.attempts) return 0
  const directory = yield* JobDirectory
  if (waited.reason === "after") {
    const services = { directory, store: yield* JobStore }
    return countUnfinished(yield* readPrerequisites(services, job, submittedOf(job).after ?? []))
  }
  if (waited.reason !== "children") return 0
  const counts = yield* directory.countJobs({ finishedWithinMs: 0, labels: [childLabel(job.id)] })
  return counts.reduce((sum, { count, status }) => (unfinished.has(status) ? sum + count : sum), 0)
})

/** Measures the queue by kind and mode, with what holds back all jobs of each. Counts at most `limit` jobs. */
export const measureQueues = Effect.fnUntraced(function* (
  projectId?: ProjectId,
  limit: number = Number.MAX_SAFE_INTEGER,
) {
  const depths = yield* (yield* JobDirectory).measureQueue({ limit, projectId })
  const factsOf = yield* readKindFacts
  return depths.map((depth) => ({ ...depth, heldBack: heldBack(depth, factsOf(depth.kind)) }))
})

/** Reads the facts, and returns what a job waits for; nothing for a running or finished one. */
export const waitingForJob = Effect.fnUntraced(function* (job: Job) {
  const directory = yield* JobDirectory
  const place = yield* directory.findPlace(job.id)
  // It has ended since it was read.
  if (place === undefined || job.claimableAt === null) return []
  const factsOf = yield* readKindFacts
  const [waits] = yield* directory.listWaits([job.id])
  const waited = waits?.at(-1)
  const failed = (yield* directory.listAttempts(job.id))?.at(-1)
  const unfinishedJobs = yield* countJobs(job, waited)
  return waitingFor({ ...factsOf(job.kind), job, place, waited, failed, unfinishedJobs })
})

/**
 * Returns the reasons of several jobs, for selecting jobs by them; none for a running or finished job. Jobs of the same kind, mode and
 * project share one look at the queue, so their number of jobs ahead is that of the first of them. An attempt's record is read only
 * of jobs that have one.
 */
export const waitingForJobs = Effect.fnUntraced(function* (jobs: ReadonlyArray<Job>) {
  const directory = yield* JobDirectory
  const factsOf = yield* readKindFacts
  const places = new Map<string, QueuePlace>()
  const groupOf = ({ kind, mode, projectId }: Job) => `${kind} ${mode} ${projectId}`
  for (const job of jobs) {
    if (job.claimableAt === null || places.has(groupOf(job))) continue
    const place = yield* directory.findPlace(job.id)
    if (place !== undefined) places.set(groupOf(job), place)
  }
  // An attempt that parked its job is not counted.
  const hasBegun = ({ claimableAt, held, status }: Job, now: number) =>
    status === "processing" && claimableAt !== null && !(held && claimableAt > now)
  const begun = jobs.filter((job) => hasBegun(job, places.get(groupOf(job))?.now ?? Infinity)).map(({ id }) => id)
  const runs = begun.length === 0 ? [] : yield* directory.listWaits(begun)
  const waits = new Map(begun.map((id, n) => [id, runs[n]?.at(-1)]))
  return yield* Effect.forEach(
    jobs,
    Effect.fnUntraced(function* (job) {
      const place = places.get(groupOf(job))
      if (job.claimableAt === null || place === undefined) return []
      const hasWaited = hasBegun(job, place.now)
      const waited = waits.get(job.id)
      const failed = hasWaited ? (yield* directory.listAttempts(job.id))?.at(-1) : undefined
      const unfinishedJobs = yield* countJobs(job, waited)
      return waitingFor({ ...factsOf(job.kind), job, place, waited, failed, unfinishedJobs })
    }),
  )
})
