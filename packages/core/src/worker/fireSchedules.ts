import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import { authorize, type JobId } from "../domain/index.ts"
import { dueTick, type Schedule, tickKey } from "../domain/Schedule.ts"
import { decodeSchedule } from "../engine/changeSchedule.ts"
import { Engine } from "../engine/Engine.ts"
import type { JobKind } from "../kinds/JobKind.ts"
import { type SchedulePosition, ScheduleStore, type StoredSchedule } from "../ports/index.ts"
import { describe } from "./AttemptEnd.ts"
import { tellBackground } from "./BackgroundMeter.ts"
import { makeOutageLog } from "./outageLog.ts"

/** Maximum number of schedules that one read returns. */
const batchSize = 500
/** Maximum number of schedules that are handled at once, so that many ticks at midnight share commits. */
const concurrency = 16
/** The pause between two looks at the schedules, if no tick comes before. Another process may set a schedule meanwhile. */
const longestPauseMs = 30_000
/** The pause before a refused job is tried again, and before a tick that this process cannot serve is looked at again. */
const refusedPauseMs = 5_000

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
        Effect.logError(`this process cannot handle the schedule "${name}"`, describe(Cause.die(defect))),
        longestPauseMs,
      ),
    ),
)

/**
 * Handles what is due of one schedule. The job comes first, under a key that only this tick has; only then does the schedule
 * advance, if no other process has advanced it. After a crash in between, the next process gets the same job. A refused job is
 * tried again until the next tick is due.
 */
const fire = Effect.fnUntraced(function* (stored: StoredSchedule, schedule: Schedule, kind: JobKind, now: number) {
  const store = yield* ScheduleStore
  const { nextAt, tick } = dueTick(schedule, stored.nextAt ?? now, now)
  const advance = (changes: Partial<Schedule>, at: number) =>
    store.writeSchedule(stored.name, stored.version, {
      nextAt: at,
      document: JSON.stringify({ ...schedule, ...changes }),
    })
  if (tick === undefined) {
    yield* Effect.logWarning(`the schedule "${stored.name}" missed ticks until ${new Date(nextAt).toISOString()}`)
    const advanced = yield* advance({ refusal: null }, nextAt)
    if (advanced) yield* tellBackground((meter) => meter.ticked(kind.name, "missed"))
    return Math.max(0, nextAt - now)
  }
  const submitted = yield* Effect.exit(submit(stored.name, schedule, kind, tick))
  if (Exit.isSuccess(submitted)) {
    const jobId = submitted.value
    const advanced = yield* advance({ ...(jobId !== undefined && { last: { tick, jobId } }), refusal: null }, nextAt)
    // Of several processes that meet at a tick, one counts.
    if (advanced) yield* tellBackground((meter) => meter.ticked(kind.name, "submitted"))
    return Math.max(0, nextAt - now)
  }
  const error = Option.getOrUndefined(Cause.findErrorOption(submitted.cause))
  if (error !== undefined && error._tag === "StoreUnavailable") return yield* Effect.fail(error)
  const refusal = error === undefined ? "internal_error" : error.code
  yield* tellBackground((meter) => meter.ticked(kind.name, "refused"))
  if (refusal !== schedule.refusal) {
    const why = error === undefined ? describe(submitted.cause as Cause.Cause<never>) : error.message
    yield* Effect.logWarning(
      `the schedule "${stored.name}" could not submit its job of ${new Date(tick).toISOString()}`,
      why,
    )
    // The tick stays: the job is tried again until the next one is due.
    yield* advance({ refusal }, tick)
  }
  return refusedPauseMs
})

/**
 * Submits the job of a tick; a repeat returns the same job. Another request under the key means that the tick already has one, from
 * before the schedule was changed; then, nothing is returned.
 */
const submit = Effect.fnUntraced(function* (name: string, schedule: Schedule, kind: JobKind, tick: number) {
  const engine = yield* Engine
  const grant = authorize({ ...schedule.owner, scopes: [kind.keyScope] }, kind.keyScope)
  if (grant === undefined) return yield* Effect.die(new Error("authorize() refused a scope that the principal has"))
  const placement = { priority: schedule.priority }
  const accepted = engine.createJob(grant, kind, schedule.request, tickKey(name, tick), placement)
  return yield* Effect.map(accepted, ({ job }): JobId | undefined => job.id).pipe(
    Effect.catchTag("IdempotencyKeyReused", () => Effect.undefined),
  )
})

/** Fires schedules indefinitely. `changed` ends a pause, once a schedule was changed through this process. */
export const runSchedules = (changed: Effect.Effect<void>): Effect.Effect<never, never, ScheduleStore | Engine> =>
  Effect.gen(function* () {
    const outage = makeOutageLog("looking at the schedules")
    while (true) {
      const pauseMs = yield* Effect.tap(fireSchedules, () => outage.worked).pipe(
        Effect.catchCause((cause) => Effect.as(outage.failed(cause), 1_000)),
      )
      yield* Effect.race(Effect.sleep(pauseMs), changed)
    }
  })
