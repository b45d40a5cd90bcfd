import * as Effect from "effect/Effect"
import { type JobMode, type JsonObject, priorities, requireOneOf, requireOptions } from "../domain/index.ts"
import { InvalidRequest, KindUnknown } from "../domain/Errors.ts"
import { nextTick, type Schedule, type ScheduleTiming, timingProblem } from "../domain/Schedule.ts"
import * as Result from "effect/Result"
import { Engine } from "../engine/index.ts"
import type { Kind } from "../kinds/index.ts"
import { ScheduleStore, type StoredSchedule } from "../ports/index.ts"
import { decodeSchedule } from "../worker/fireSchedules.ts"
import { callerOf } from "./callers.ts"
import { requireMode } from "./checkOptions.ts"
import type { AbortOption } from "./EmbeddedEngine.ts"
import type { EngineRuntime } from "./EngineRuntime.ts"
import { scheduleOptions, verbOptions } from "./optionNames.ts"
import type { ListedSchedule, ScheduleOptions, ScheduleVerbs } from "./ScheduleVerbs.ts"

/** The methods for schedules. `changed` is called after each change, so that a worker of this process looks at it. */
export const promisedSchedules = <K extends Kind>(
  { run }: EngineRuntime,
  defaultMode: JobMode,
  changed: () => void,
): ScheduleVerbs<K> => {
  const write = async (place: string, name: string, change: Change, options: AbortOption = {}): Promise<void> => {
    requireOptions(place, options, verbOptions.events)
    requireName(name)
    await run(update(name, change), options.signal)
    changed()
  }
  return {
    set: async (name, schedule, options) => {
      requireOptions("schedules.set()", schedule, scheduleOptions)
      const wanted = await run(read(schedule as ScheduleOptions<Kind>, defaultMode))
      return write("schedules.set()", name, (stored, now) => replaced(wanted, stored, now), options)
    },
    list: async (options = {}) => {
      requireOptions("schedules.list()", options, verbOptions.events)
      const { schedules } = await run(
        Effect.flatMap(ScheduleStore, (store) => store.listSchedules),
        options.signal,
      )
      return schedules.map(listed)
    },
    pause: (name, options) =>
      write(
        "schedules.pause()",
        name,
        (stored) => ({ ...scheduleIn(stored, name), paused: true, nextAt: null }),
        options,
      ),
    resume: (name, options) =>
      write(
        "schedules.resume()",
        name,
        (stored, now) => {
          const schedule = scheduleIn(stored, name)
          return schedule.paused ? { ...schedule, paused: false, nextAt: nextTick(schedule.timing, now) } : "unchanged"
        },
        options,
      ),
    remove: (name, options) =>
      write("schedules.remove()", name, (stored) => (stored === undefined ? "unchanged" : null), options),
  }
}

/** A schedule with its next tick. */
type Written = Schedule & { readonly nextAt: number | null }

/** Decides what to write instead of a stored schedule; `null` removes it. */
type Change = (stored: StoredSchedule | undefined, now: number) => Written | null | "unchanged"

/** Repeats a change until it is made to what is stored at that moment: a worker may advance the schedule meanwhile. */
const update = Effect.fnUntraced(function* (name: string, change: Change) {
  const store = yield* ScheduleStore
  while (true) {
    const {
      now,
      schedules: [stored],
    } = yield* store.findSchedule(name)
    const next = yield* Effect.try({ try: () => change(stored, now), catch: (error) => error })
    if (next === "unchanged") return
    const { nextAt = null, ...schedule } = next ?? {}
    const written = next === null ? null : { nextAt, document: JSON.stringify(schedule) }
    if (yield* store.writeSchedule(name, stored?.version ?? 0, written)) return
  }
})

const requireName = (name: unknown): void => {
  if (typeof name !== "string" || !/^[\w.:-]{1,100}$/.test(name))
    throw new TypeError("the name of a schedule must be 1 to 100 letters, digits, hyphens, underscores, dots or colons")
}

const scheduleIn = (stored: StoredSchedule | undefined, name: string): Written => {
  if (stored === undefined) throw new TypeError(`there is no schedule "${name}"`)
  return { ...decodeSchedule(stored), nextAt: stored.nextAt }
}

/** What `set` is called with, checked. The interval's start is not known yet. */
type Wanted = Pick<Schedule, "kind" | "request" | "owner" | "priority" | "missed"> & { readonly timing: Timing }
type Timing = { readonly cron: string; readonly timeZone: string } | { readonly everyMs: number }

const read = Effect.fnUntraced(function* (options: ScheduleOptions<Kind>, defaultMode: JobMode) {
  const { kind: name, missed = "once", mode = defaultMode, priority = "normal", project, request } = options
  const { kinds } = yield* Engine
  const kind = kinds.find((known) => known.name === name)
  if (kind === undefined)
    return yield* Effect.fail(new KindUnknown({ kind: name, known: kinds.map((known) => known.name) }))
  const timing = yield* Effect.try({
    try: () => {
      requireMode(mode)
      requireOneOf("priority", priority, priorities)
      requireOneOf("missed", missed, ["once", "skip"])
      return timingOf(options)
    },
    catch: (error) => error,
  })
  if (kind.upload !== undefined)
    return yield* Effect.fail(
      new TypeError(`${name} takes an upload, which only one job can use; it cannot be scheduled`),
    )
  const draft = kind.reader.read(request)
  if (Result.isFailure(draft)) return yield* Effect.fail(new InvalidRequest({ errors: draft.failure }))
  const { keyId, projectId } = callerOf(mode, project, [])
  const wanted: Wanted = {
    kind: name,
    request: draft.success.stored,
    owner: { projectId, keyId, mode },
    priority,
    missed,
    timing,
  }
  return wanted
})

const timingOf = ({ cron, everyMs, timeZone }: ScheduleOptions<Kind>): Timing => {
  if ((cron === undefined) === (everyMs === undefined)) throw new TypeError("a schedule needs either cron or everyMs")
  if (cron !== undefined && (typeof cron !== "string" || (timeZone !== undefined && typeof timeZone !== "string")))
    throw new TypeError("cron and timeZone must be strings")
  if (cron === undefined && timeZone !== undefined) throw new TypeError("timeZone belongs to cron, not to everyMs")
  const timing: Timing = cron === undefined ? { everyMs } : { cron, timeZone: timeZone ?? "UTC" }
  const problem = timingProblem(startingAt(timing, 0))
  if (problem !== undefined) throw new TypeError(problem)
  return timing
}

/** The schedule to write. The same schedule again changes nothing; another timing starts over. */
const replaced = (wanted: Wanted, stored: StoredSchedule | undefined, now: number): Written | "unchanged" => {
  const before = stored && decodeSchedule(stored)
  const keepsTiming = before !== undefined && sameTiming(before.timing, wanted.timing)
  const timing = keepsTiming ? before.timing : startingAt(wanted.timing, now)
  const paused = before?.paused ?? false
  const next: Schedule = { ...wanted, timing, paused, last: before?.last ?? null, refusal: before?.refusal ?? null }
  if (before !== undefined && JSON.stringify(ordered(before)) === JSON.stringify(ordered(next))) return "unchanged"
  const nextAt = keepsTiming && stored !== undefined ? stored.nextAt : nextTick(timing, now)
  return { ...next, nextAt: paused ? null : nextAt }
}

const startingAt = (timing: Timing, now: number): ScheduleTiming =>
  "cron" in timing ? timing : { everyMs: timing.everyMs, from: now + timing.everyMs }

const sameTiming = (a: ScheduleTiming, b: Timing): boolean =>
  "cron" in a
    ? "cron" in b && a.cron === b.cron && a.timeZone === b.timeZone
    : "everyMs" in b && a.everyMs === b.everyMs

const ordered = ({ kind, last, missed, owner, paused, priority, refusal, request, timing }: Schedule) => {
  const { keyId, mode, projectId } = owner
  return [kind, last, missed, keyId, mode, projectId, paused, priority, refusal, sorted(request), timing]
}

const sorted = (request: JsonObject) => Object.entries(request).sort(([a], [b]) => (a < b ? -1 : 1))

const listed = (stored: StoredSchedule): ListedSchedule => {
  const { kind, last, missed, owner, paused, priority, refusal, request, timing } = decodeSchedule(stored)
  return {
    name: stored.name,
    kind,
    request,
    cron: "cron" in timing ? timing.cron : undefined,
    timeZone: "cron" in timing ? timing.timeZone : undefined,
    everyMs: "cron" in timing ? undefined : timing.everyMs,
    projectId: owner.projectId,
    mode: owner.mode,
    priority,
    missed,
    paused,
    nextAt: stored.nextAt === null ? null : new Date(stored.nextAt),
    lastAt: last === null ? null : new Date(last.tick),
    lastJobId: last?.jobId ?? null,
    refusal,
  }
}
