import * as Effect from "effect/Effect"
import type { JobTick } from "../domain/acceptance.ts"
import { KindUnknown } from "../domain/Errors.ts"
import { authorize, isFinished, type Job, type JobId, type StoreUnavailable } from "../domain/index.ts"
import { followingTick, jitterOf, type Schedule } from "../domain/Schedule.ts"
import type { JobKind } from "../kinds/JobKind.ts"
import { type IdGenerator, JobDirectory, JobStore, ScheduleStore, type StoredSchedule } from "../ports/index.ts"
import { type AcceptedJob, acceptedOf, type CreateJobError } from "./createJob.ts"
import { makeLatestRetry } from "./latestRetry.ts"
import { type Fingerprint, type JobRequest, makePrepareJob, readDraft, traceIn } from "./prepareJob.ts"

/** A schedule with its next tick, store time; `null` while it is paused, and once it has ended. */
export type PlacedSchedule = Schedule & Pick<StoredSchedule, "nextAt">

export const decodeSchedule = ({ document }: StoredSchedule): Schedule => JSON.parse(document) as Schedule

const placed = (stored: StoredSchedule): PlacedSchedule => ({ ...decodeSchedule(stored), nextAt: stored.nextAt })

const written = (next: PlacedSchedule | null) => {
  if (next === null) return null
  const { nextAt, ...schedule } = next
  return { nextAt, document: JSON.stringify(schedule) }
}

/** Decides what to write instead of a stored schedule; `null` removes it. */
export type ScheduleChange = (stored: StoredSchedule | undefined, now: number) => PlacedSchedule | null | "unchanged"

/**
 * Repeats a change until it is made to what is stored at that moment: a worker may advance the schedule meanwhile. Returns whether
 * the schedule existed before.
 */
export const changeSchedule = Effect.fnUntraced(function* (
  name: string,
  change: ScheduleChange,
): Effect.fn.Return<boolean, StoreUnavailable, ScheduleStore> {
  const store = yield* ScheduleStore
  while (true) {
    const {
      now,
      schedules: [stored],
    } = yield* store.findSchedule(name)
    const next = change(stored, now)
    if (next === "unchanged" || (yield* store.writeSchedule(name, stored?.version ?? 0, written(next))))
      return stored !== undefined
  }
})

const changeExisting = (name: string, change: (schedule: PlacedSchedule, now: number) => ReturnType<ScheduleChange>) =>
  changeSchedule(name, (stored, now) => (stored === undefined ? "unchanged" : change(placed(stored), now)))

/** Pauses a schedule: the ticks during a pause get no job. Returns false if it does not exist. */
export const pauseSchedule = (name: string) =>
  changeExisting(name, (schedule) =>
    schedule.paused ? "unchanged" : { ...schedule, paused: true, waits: undefined, nextAt: null },
  )

/** Continues a paused schedule with its next tick. Returns false if it does not exist. */
export const resumeSchedule = (name: string) =>
  changeExisting(name, (schedule, now) =>
    schedule.paused ? { ...schedule, paused: false, nextAt: followingTick(schedule, now) } : "unchanged",
  )

/** Removes a schedule; its jobs stay. Returns false if it does not exist. */
export const removeSchedule = (name: string) => changeExisting(name, () => null)

/** Lists all schedules with the store time at which they were read. */
export const listSchedules = Effect.gen(function* () {
  const { now, schedules } = yield* (yield* ScheduleStore).listSchedules
  return { now, schedules: schedules.map((stored) => ({ name: stored.name, ...placed(stored) })) }
})

/** Makes all schedules continue with their next tick, without jobs for the ticks that are due. Returns how many had due ticks. */
export const skipDueTicks = Effect.gen(function* () {
  const { now, schedules } = yield* listSchedules
  const due = schedules.filter(({ nextAt }) => nextAt !== null && nextAt <= now)
  for (const { name } of due)
    yield* changeExisting(name, (schedule, time) =>
      schedule.nextAt === null || schedule.nextAt > time
        ? "unchanged"
        : { ...schedule, refusal: null, waits: undefined, nextAt: followingTick(schedule, time) },
    )
  return due.length
})

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
