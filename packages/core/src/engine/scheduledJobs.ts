import * as Effect from "effect/Effect"
import { KindUnknown } from "../domain/Errors.ts"
import { authorize, isFinished, type Job, type JobId, type StoreUnavailable } from "../domain/index.ts"
import type { JobTick } from "../domain/JobTick.ts"
import { jitterOf, type Schedule } from "../domain/Schedule.ts"
import type { JobKind } from "../kinds/JobKind.ts"
import { type IdGenerator, JobDirectory, JobStore, ScheduleStore } from "../ports/index.ts"
import { type AcceptedJob, acceptedOf, type CreateJobError } from "./acceptedOf.ts"
import { decodeSchedule } from "./changeSchedule.ts"
import type { Fingerprint } from "./Fingerprint.ts"
import { makeLatestRetry } from "./latestRetry.ts"
import { type JobRequest, makePrepareJob, readDraft, traceIn } from "./prepareJob.ts"

/** Returns the request for a job of a schedule. `now`: store time, from which the rest of its jitter counts. */
export const tickRequest = (
  kind: JobKind,
  tick: JobTick,
  idempotencyKey: string | undefined,
  now: number,
): JobRequest => {
  const { last, owner, priority, request, tags = [] } = tick.schedule
  const grant = authorize({ ...owner, scopes: [kind.keyScope] }, kind.keyScope)
  if (grant === undefined) throw new Error("authorize() refused a scope that the principal has")
  const delayMs = tick.isManual === true ? 0 : tick.tick + jitterOf(tick.schedule, tick.name, tick.tick) - now
  const schedule = { name: tick.name, tickAt: tick.tick, previousAt: last?.tick ?? null }
  const submitted = { ...(tags.length > 0 && { tags }), schedule }
  return {
    grant,
    kind,
    request,
    idempotencyKey,
    placement: { priority, tick, delayMs: Math.max(0, delayMs), submitted },
  }
}

/** Returns the unfinished job of a schedule, or the unfinished retry of one that failed. */
export const unfinishedJobOf = Effect.fnUntraced(function* ({
  last,
  manual,
}: Pick<Schedule, "last" | "manual">): Effect.fn.Return<Job | undefined, StoreUnavailable, JobDirectory | JobStore> {
  const directory = yield* JobDirectory
  const latestRetry = makeLatestRetry(yield* JobStore)
  const read = Effect.fnUntraced(function* (ids: ReadonlyArray<JobId>) {
    return ids.length === 0 ? [] : (yield* directory.readJobs(ids)).flatMap((job) => job ?? [])
  })
  const jobs = yield* read([last, manual].flatMap((entry) => entry?.jobId ?? []))
  const unfinished = jobs.find((job) => !isFinished(job))
  if (unfinished !== undefined) return unfinished
  const retries = yield* Effect.forEach(jobs, (job) => latestRetry(job))
  return (yield* read(retries.flatMap((id) => id ?? []))).find((job) => !isFinished(job))
})

/**
 * Submits a job of a schedule now, also while it is paused; its ticks stay as they are. While the job of an earlier call is unfinished,
 * or any job of a schedule whose jobs must not overlap, that one is returned instead. The job and its mark in the schedule are one
 * transaction, so of calls at the same time, one submits a job. `undefined`: there is no schedule of this name.
 */
export const runScheduleNow = Effect.fnUntraced(function* (
  kinds: ReadonlyArray<JobKind>,
  name: string,
  idempotencyKey: string | undefined,
): Effect.fn.Return<
  AcceptedJob | undefined,
  CreateJobError | KindUnknown,
  ScheduleStore | JobDirectory | JobStore | IdGenerator | Fingerprint
> {
  const schedules = yield* ScheduleStore
  const jobs = yield* JobStore
  const prepare = yield* makePrepareJob
  const trace = yield* Effect.withFiber((fiber) => Effect.succeed(traceIn(fiber)))
  // No key of a caller has a space.
  const key = idempotencyKey === undefined ? undefined : `run ${idempotencyKey} ${name}`
  while (true) {
    const {
      now,
      schedules: [stored],
    } = yield* schedules.findSchedule(name)
    if (stored === undefined) return undefined
    const schedule = decodeSchedule(stored)
    const kind = kinds.find((known) => known.name === schedule.kind)
    if (kind === undefined)
      return yield* Effect.fail(new KindUnknown({ kind: schedule.kind, known: kinds.map((known) => known.name) }))
    const earlier = key === undefined ? undefined : yield* jobs.findByIdempotencyKey(schedule.owner.keyId, key)
    if (earlier !== undefined) return { job: earlier, replayed: true }
    const { manual, overlap = "allow" } = schedule
    const unfinished = yield* unfinishedJobOf(overlap === "allow" ? { last: null, manual } : schedule)
    if (unfinished !== undefined) return { job: unfinished, replayed: false, deduplicated: true }
    const tick: JobTick = { name, version: stored.version, tick: now, schedule, nextAt: stored.nextAt, isManual: true }
    const draft = yield* Effect.fromResult(readDraft(tickRequest(kind, tick, key, now)))
    const [outcome] = yield* Effect.uninterruptible(jobs.createJobs([prepare(draft, trace)]))
    // The schedule was changed, or another call was first: it is read again.
    if (outcome?._tag !== "TickTaken") return yield* Effect.fromResult(acceptedOf(outcome))
  }
})
