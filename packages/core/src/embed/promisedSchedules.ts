import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { InvalidRequest, KindUnknown } from "../domain/Errors.ts"
import { type JobMode, type JsonObject, requireOneOf, requireOptions, type StoreUnavailable } from "../domain/index.ts"
import { readPriority } from "../domain/Priority.ts"
import { nextTick, type Schedule, type ScheduleTiming, timingProblem } from "../domain/Schedule.ts"
import {
  changeSchedule,
  decodeSchedule,
  Engine,
  listSchedules,
  pauseSchedule,
  type PlacedSchedule,
  removeSchedule,
  resumeSchedule,
} from "../engine/index.ts"
import type { Kind } from "../kinds/index.ts"
import type { ScheduleStore, StoredSchedule } from "../ports/index.ts"
import { callerOf, requireMode, scheduleOptions, verbOptions } from "./checkOptions.ts"
import type { AbortOption, ListedSchedule, ScheduleOptions, ScheduleVerbs } from "./EmbeddedEngine.ts"
import type { EngineRuntime } from "./EngineRuntime.ts"

/** The methods for schedules. `changed` is called after each change, so that a worker of this process looks at it. */
export const promisedSchedules = <K extends Kind>(
  { run }: EngineRuntime,
  defaultMode: JobMode,
  changed: () => void,
): ScheduleVerbs<K> => {
  const write = async (
    place: string,
    name: string,
    change: Effect.Effect<boolean, StoreUnavailable, ScheduleStore>,
    options: AbortOption = {},
  ): Promise<boolean> => {
    requireOptions(place, options, verbOptions.events)
    requireName(name)
    const existed = await run(change, options.signal)
    changed()
    return existed
  }
  const writeExisting = async (...args: Parameters<typeof write>): Promise<void> => {
    const [, name] = args
    if (!(await write(...args))) throw new TypeError(`there is no schedule "${name}"`)
  }
  return {
    set: async (name, schedule, options) => {
      requireOptions("schedules.set()", schedule, scheduleOptions)
      const wanted = await run(read(schedule as ScheduleOptions<Kind>, defaultMode))
      const change = changeSchedule(name, (stored, now) => replaced(wanted, stored, now))
      await write("schedules.set()", name, change, options)
    },
    list: async (options = {}) => {
      requireOptions("schedules.list()", options, verbOptions.events)
      const { schedules } = await run(listSchedules, options.signal)
      return schedules.map(listed)
    },
    pause: (name, options) => writeExisting("schedules.pause()", name, pauseSchedule(name), options),
    resume: (name, options) => writeExisting("schedules.resume()", name, resumeSchedule(name), options),
    remove: async (name, options) => void (await write("schedules.remove()", name, removeSchedule(name), options)),
  }
}

const requireName = (name: unknown): void => {
  if (typeof name !== "string" || !/^[\w.:-]{1,100}$/.test(name))
    throw new TypeError("the name of a schedule must be 1 to 100 letters, digits, hyphens, underscores, dots or colons")
}

/** The checked arguments of `set`. The interval's start is not known yet. */
type Wanted = Pick<Schedule, "kind" | "request" | "owner" | "priority" | "missed"> & { readonly timing: Timing }
type Timing = { readonly cron: string; readonly timeZone: string } | { readonly everyMs: number }

const read = Effect.fnUntraced(function* (options: ScheduleOptions<Kind>, defaultMode: JobMode) {
  const { kind: name, missed = "once", mode = defaultMode, priority = "normal", project, request } = options
  const { kinds } = yield* Engine
  const kind = kinds.find((known) => known.name === name)
  if (kind === undefined)
    return yield* Effect.fail(new KindUnknown({ kind: name, known: kinds.map((known) => known.name) }))
  const checked = yield* Effect.try({
    try: () => {
      requireMode(mode)
      requireOneOf("missed", missed, ["once", "skip"])
      return { priority: readPriority(priority), timing: timingOf(options) }
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
    missed,
    ...checked,
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
const replaced = (wanted: Wanted, stored: StoredSchedule | undefined, now: number): PlacedSchedule | "unchanged" => {
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

const listed = ({ name, nextAt, ...schedule }: PlacedSchedule & { readonly name: string }): ListedSchedule => {
  const { kind, last, missed, owner, paused, priority, refusal, request, timing } = schedule
  return {
    name,
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
    nextAt: nextAt === null ? null : new Date(nextAt),
    lastAt: last === null ? null : new Date(last.tick),
    lastJobId: last?.jobId ?? null,
    refusal,
  }
}
