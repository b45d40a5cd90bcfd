import { requireTags } from "./checkSubmitted.ts"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { InvalidRequest, KindUnknown } from "../domain/Errors.ts"
import { isDate, isPlainObject } from "../domain/givenValues.ts"
import { type JobMode, requireNumber, requireOneOf, requireOptions, type StoreUnavailable } from "../domain/index.ts"
import { readPriority } from "../domain/Priority.ts"
import { followingTick, type Schedule, type ScheduleTiming, timingProblem } from "../domain/Schedule.ts"
import {
  changeSchedule,
  decodeSchedule,
  Engine,
  listSchedules,
  Operator,
  pauseSchedule,
  type PlacedSchedule,
  removeSchedule,
  resumeSchedule,
} from "../engine/index.ts"
import type { Kind } from "../kinds/index.ts"
import type { ScheduleStore, StoredSchedule } from "../ports/index.ts"
import {
  callerOf,
  requireIdempotencyKey,
  requireMode,
  runNowOptions,
  scheduleOptions,
  verbOptions,
} from "./checkOptions.ts"
import type { AbortOption } from "./CallOptions.ts"
import type { EngineRuntime } from "./EngineRuntime.ts"
import type { ListedSchedule, ScheduleOptions, ScheduleVerbs } from "./ScheduleVerbs.ts"
import { shownSubmission } from "./submitVerbs.ts"

/** The methods for schedules. `changed` is called after each change, so that a worker of this process looks at it. */
export const promisedSchedules = <K extends Kind>(
  { context, run }: EngineRuntime,
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
      if (isPlainObject(name))
        throw new TypeError('schedules.set() expects the name first: set("nightly", { kind, … })')
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
    runNow: async (name, options = {}) => {
      requireOptions("schedules.runNow()", options, runNowOptions)
      requireName(name)
      const { idempotencyKey, signal } = options
      if (idempotencyKey !== undefined) requireIdempotencyKey(idempotencyKey)
      const running = Effect.flatMap(Operator, (operator) => operator.runSchedule(name, idempotencyKey))
      const accepted = await run(running, signal)
      if (accepted === undefined) throw new TypeError(`there is no schedule "${name}"`)
      return shownSubmission(accepted, Context.get(context, Engine))
    },
    remove: async (name, options) => void (await write("schedules.remove()", name, removeSchedule(name), options)),
  }
}

const requireName = (name: unknown): void => {
  if (typeof name !== "string" || !/^[\w.:-]{1,100}$/.test(name))
    throw new TypeError("the name of a schedule must be 1 to 100 letters, digits, hyphens, underscores, dots or colons")
}

/** The checked arguments of `set`. The interval's start is not known yet. */
type Wanted = Pick<
  Schedule,
  "kind" | "request" | "owner" | "priority" | "missed" | "overlap" | "tags" | "jitterMs" | "endsAt"
> & { readonly timing: Timing }
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
      requireOneOf("missed", missed, ["once", "skip", "each"])
      return { priority: readPriority(priority), timing: timingOf(options), ...readRules(options) }
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

/** Reads the options that earlier versions do not know. The defaults are not stored, so that a schedule without them stays as it is. */
const readRules = ({
  endsAt,
  everyMs,
  jitterMs = 0,
  overlap = "allow",
  tags = [],
}: ScheduleOptions<Kind>): Pick<Schedule, "overlap" | "tags" | "jitterMs" | "endsAt"> => {
  requireOneOf("overlap", overlap, ["allow", "skip", "queue"])
  requireTags("tags", tags)
  requireNumber("jitterMs", jitterMs, { least: 0, most: Math.min(everyMs ?? Infinity, longestJitterMs) })
  if (endsAt !== undefined && (!isDate(endsAt) || Number.isNaN(endsAt.getTime())))
    throw new TypeError("endsAt must be a valid Date")
  return {
    ...(overlap !== "allow" && { overlap }),
    ...(tags.length > 0 && { tags: [...new Set(tags)] }),
    ...(jitterMs > 0 && { jitterMs: Math.floor(jitterMs) }),
    ...(endsAt !== undefined && { endsAt: endsAt.getTime() }),
  }
}

const longestJitterMs = 24 * 3_600_000

const timingOf = ({ cron, everyMs, timeZone }: ScheduleOptions<Kind>): Timing => {
  if ((cron === undefined) === (everyMs === undefined)) throw new TypeError("a schedule needs one of cron and everyMs")
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
  const { last = null, manual, refusal = null, skipped, waits } = before ?? {}
  const state = { ...(skipped && { skipped }), ...(manual && { manual }), ...(waits === true && { waits }) }
  const next: Schedule = { ...wanted, timing, paused, last, refusal, ...state }
  if (before !== undefined && isDeepEqual(before, next)) return "unchanged"
  if (paused) return { ...next, nextAt: null }
  // A schedule that has ended may continue with another end, as one after its pause.
  const current = keepsTiming ? (stored?.nextAt ?? null) : null
  const goesOn = current !== null && current <= (wanted.endsAt ?? Infinity)
  if (goesOn) return { ...next, nextAt: current }
  // Its job was refused, or waited, at a tick that is no more.
  return { ...next, refusal: null, waits: undefined, nextAt: followingTick(next, now) }
}

const startingAt = (timing: Timing, now: number): ScheduleTiming =>
  "cron" in timing ? timing : { everyMs: timing.everyMs, from: now + timing.everyMs }

const sameTiming = (a: ScheduleTiming, b: Timing): boolean =>
  "cron" in a
    ? "cron" in b && a.cron === b.cron && a.timeZone === b.timeZone
    : "everyMs" in b && a.everyMs === b.everyMs

/** Compares two schedules, whatever the order of their fields. */
const isDeepEqual = (a: Schedule, b: Schedule): boolean => JSON.stringify(sorted(a)) === JSON.stringify(sorted(b))

const sorted = ({ owner, request, ...schedule }: Schedule) => [byName(schedule), byName(owner), byName(request)]

const byName = (fields: object) => Object.entries(fields).sort(([a], [b]) => (a < b ? -1 : 1))

const listed = ({ name, nextAt, ...schedule }: PlacedSchedule & { readonly name: string }): ListedSchedule => {
  const { kind, last, missed, owner, paused, priority, refusal, request, skipped, timing } = schedule
  const { endsAt, jitterMs = 0, overlap = "allow", tags = [], waits = false } = schedule
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
    overlap,
    tags,
    jitterMs,
    endsAt: endsAt === undefined ? null : new Date(endsAt),
    paused,
    nextAt: nextAt === null ? null : new Date(nextAt),
    lastAt: last === null ? null : new Date(last.tick),
    lastJobId: last?.jobId ?? null,
    refusal,
    waits,
    skipped: skipped?.count ?? 0,
    lastSkippedAt: skipped === undefined ? null : new Date(skipped.tick),
    lastSkipReason: skipped?.reason ?? null,
  }
}
