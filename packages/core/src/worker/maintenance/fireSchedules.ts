import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import type { JobTick } from "../../domain/acceptance.ts"
import { dueTick, type Schedule, tickKey, withSkipped } from "../../domain/Schedule.ts"
import { acceptedOf } from "../../engine/createJob.ts"
import { decodeSchedule, tickRequest, unfinishedJobOf } from "../../engine/schedules.ts"
import { Engine } from "../../engine/Engine.ts"
import type { JobKind } from "../../kinds/JobKind.ts"
import {
  type JobDirectory,
  type JobStore,
  type SchedulePosition,
  ScheduleStore,
  type StoredSchedule,
} from "../../ports/index.ts"
import { described, logCause } from "../attempt/AttemptEnd.ts"
import { tellBackground } from "../metrics/backgroundMetrics.ts"
import { makeOutageLog } from "../repeating.ts"

/** Maximum number of schedules that one read returns. */
const batchSize = 500
/** Maximum number of schedules that are handled at once, so that many ticks at midnight share commits. */
const concurrency = 16
/** The pause between two looks at the schedules, if no tick comes before. Another process may set a schedule meanwhile. */
const longestPauseMs = 30_000
/** The pause before a refused job is tried again, and before a tick that this process cannot serve is looked at again. */
const refusedPauseMs = 5_000
/** The pause before a look at a tick whose job waits for another one of its schedule. */
const waitingPauseMs = 1_000

/** Submits the jobs of all ticks that are due. Returns the milliseconds until the next look. */
export const fireSchedules = Effect.gen(function* () {
  const store = yield* ScheduleStore
  let pauseMs = longestPauseMs
  let after: SchedulePosition | undefined
  do {
    const { now, schedules } = yield* store.nextSchedules(batchSize, after)
    const pauses = yield* Effect.forEach(schedules, (stored) => look(stored, now), { concurrency })
    pauseMs = Math.min(pauseMs, ...pauses)
    // Schedules whose jobs are refused, or whose kind others have, stay in front of those that are due later.
    after = schedules.length < batchSize ? undefined : dueAt(schedules.at(-1), now)
  } while (after !== undefined)
  return pauseMs
})

const dueAt = (stored: StoredSchedule | undefined, now: number): SchedulePosition | undefined =>
  stored === undefined || stored.nextAt === null || stored.nextAt > now
    ? undefined
    : { nextAt: stored.nextAt, name: stored.name }

/**
 * Handles one schedule. Returns the milliseconds until the next look at it. One that this process cannot handle, for example because
 * it does not know the time zone, must not keep it from the others.
 */
const look = Effect.fnUntraced(
  function* (stored: StoredSchedule, now: number) {
    const { kinds } = yield* Engine
    const dueInMs = (stored.nextAt ?? Infinity) - now
    if (dueInMs > 0) return dueInMs
    const schedule = decodeSchedule(stored)
    // A worker with this kind submits its jobs.
    const kind = kinds.find(({ name }) => name === schedule.kind)
    return kind === undefined ? refusedPauseMs : yield* fire(stored, schedule, kind, now)
  },
  (handled, { name }) =>
    Effect.catchDefect(handled, (defect) =>
      Effect.as(
        logCause(Effect.logError, `this process cannot handle the schedule "${name}"`, Cause.die(defect)),
        longestPauseMs,
      ),
    ),
)

/**
 * Handles what is due of one schedule. The job and the advance of the schedule are one transaction, which has an effect only while the
 * schedule is the one that was read: whatever processes, crashes and changes of the schedule meet at a tick, it gets one job. A
 * refused job is tried again until the next tick is due.
 */
const fire = Effect.fnUntraced(function* (stored: StoredSchedule, schedule: Schedule, kind: JobKind, now: number) {
  const store = yield* ScheduleStore
  const due = dueTick(schedule, stored.nextAt ?? now, now)
  const { nextAt, tick } = due
  const pauseMs = nextAt === null ? longestPauseMs : Math.max(0, nextAt - now)
  const advance = (next: Schedule, at: number | null) =>
    store.writeSchedule(stored.name, stored.version, { nextAt: at, document: JSON.stringify(next) })
  if (tick === undefined) {
    const until = nextAt === null ? "its end" : new Date(nextAt).toISOString()
    yield* Effect.logWarning(`the schedule "${stored.name}" missed ticks until ${until}`)
    const advanced = yield* advance({ ...due.schedule, waits: undefined, refusal: null }, nextAt)
    if (advanced) yield* tellBackground((meter) => meter.ticked(kind.name, "missed"))
    return pauseMs
  }
  const { overlap = "allow" } = schedule
  // A finished job stays finished, so what is read here holds until the schedule is written, whose version would tell of another job.
  // Only a retry that an operator begins in between is not seen: it does not change the schedule.
  if (overlap !== "allow" && (yield* unfinishedJobOf(schedule)) !== undefined) {
    if (overlap === "queue") {
      if (schedule.waits !== true || tick !== stored.nextAt) yield* advance({ ...due.schedule, waits: true }, tick)
      return waitingPauseMs
    }
    const skipped = withSkipped(due.schedule, 1, tick, "overlap")
    if (yield* advance({ ...skipped, waits: undefined, refusal: null }, nextAt))
      yield* tellBackground((meter) => meter.ticked(kind.name, "skipped"))
    return pauseMs
  }
  const submitted = yield* Effect.exit(
    submit(kind, { name: stored.name, version: stored.version, tick, schedule: due.schedule, nextAt }, now),
  )
  if (Exit.isSuccess(submitted)) {
    // Another process submitted the job, or the schedule was changed: it is read again.
    if (submitted.value === "TickTaken") return 0
    yield* tellBackground((meter) => meter.ticked(kind.name, "submitted"))
    return pauseMs
  }
  const error = Option.getOrUndefined(Cause.findErrorOption(submitted.cause))
  if (error !== undefined && error._tag === "StoreUnavailable") return yield* Effect.fail(error)
  const refusal = error === undefined ? "internal_error" : error.code
  yield* tellBackground((meter) => meter.ticked(kind.name, "refused"))
  if (refusal !== schedule.refusal) {
    const why = error === undefined ? yield* described(submitted.cause as Cause.Cause<never>) : error.message
    yield* Effect.logWarning(
      `the schedule "${stored.name}" could not submit its job of ${new Date(tick).toISOString()}`,
      why,
    )
  }
  // The tick stays: the job is tried again until the next one is due.
  if (refusal !== schedule.refusal || tick !== stored.nextAt)
    yield* advance({ ...due.schedule, waits: undefined, refusal }, tick)
  return refusedPauseMs
})

/** Submits the job of a tick. A tick that has a job from an earlier version of this package counts as submitted. */
const submit = Effect.fnUntraced(function* (kind: JobKind, tick: JobTick, now: number) {
  const engine = yield* Engine
  const outcome = yield* engine.createTickJob(tickRequest(kind, tick, tickKey(tick.name, tick.tick), now))
  if (outcome?._tag === "TickTaken" || outcome?._tag === "KeyReused") return outcome._tag
  return (yield* Effect.fromResult(acceptedOf(outcome))).job.id
})

/** Fires schedules indefinitely. `changed` ends a pause, once a schedule was changed through this process. */
export const runSchedules = (
  changed: Effect.Effect<void>,
): Effect.Effect<never, never, ScheduleStore | JobDirectory | JobStore | Engine> =>
  Effect.gen(function* () {
    const outage = makeOutageLog("looking at the schedules")
    while (true) {
      const pauseMs = yield* Effect.tap(fireSchedules, () => outage.worked).pipe(
        Effect.catchCause((cause) => Effect.as(outage.failed(cause), 1_000)),
      )
      yield* Effect.race(Effect.sleep(pauseMs), changed)
    }
  })
