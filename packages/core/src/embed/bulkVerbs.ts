import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import {
  type PriorityName,
  readPriority,
  requireFlag,
  requireNumber,
  requireOptions,
  type StoreUnavailable,
} from "../domain/index.ts"
import {
  type BulkVerb,
  changeMatching,
  type JobChange,
  selectionFor,
  toleratingEnd,
  toleratingRefusal,
} from "../engine/changeJobs.ts"
import { type NewPlace, Operator } from "../engine/index.ts"
import { maxDelayMs } from "../engine/prepareJob.ts"
import type { Kind } from "../kinds/KindTypes.ts"
import { bulkOptions, jobFilter, newStart } from "./checkOptions.ts"
import type { EngineRuntime } from "./EngineRuntime.ts"
import { idOf } from "./toJobResult.ts"
import { checkFilter, queryOf, requireCondition, requireDate } from "./jobFilters.ts"
import type { BulkOptions, BulkResult, JobFilter, NewStart, OperatorVerbs } from "./OperatorVerbs.ts"

type BulkVerbs = Pick<
  OperatorVerbs<Kind>,
  "promote" | "reschedule" | "cancelMany" | "retryMany" | "promoteMany" | "rescheduleMany"
>

/** The time for which one call looks for jobs that match. A store reads a bounded number of rows for each page. */
const lookMs = 10_000
const usualLimit = 1_000
const mostJobs = 10_000

/** The verbs that change the start of jobs, and those that change the jobs of a filter. */
export const bulkVerbs = ({ context, run }: Pick<EngineRuntime, "context" | "run">): BulkVerbs => {
  const operator = Context.get(context, Operator)
  const changing =
    (place: string, verb: BulkVerb, change: (jobId: string) => Effect.Effect<JobChange, StoreUnavailable>) =>
    async (filter: JobFilter, options: BulkOptions = {}): Promise<BulkResult> => {
      checkFilter(place, filter, jobFilter)
      requireCondition(place, filter)
      requireOptions(`the options of ${place}`, options, bulkOptions)
      const { after, dryRun, limit = usualLimit } = options
      requireFlag("dryRun", dryRun)
      requireNumber("limit", limit, { least: 1, most: mostJobs, whole: true })
      return run(
        Effect.gen(function* () {
          const query = yield* queryOf(filter)
          // Refuses a kind that nobody has, with the nearest name.
          if (query.kind !== undefined) yield* operator.list({ kind: query.kind, limit: 1 })
          const selection = selectionFor(verb, query)
          const { next, ...result } = yield* changeMatching(selection, { after, dryRun, limit, lookMs }, change)
          return { ...result, next: next ?? undefined }
        }),
      )
    }
  return {
    promote: (job) => run(Effect.asVoid(operator.promote(idOf(job)))),
    reschedule: async (job, start) => {
      checkStart("reschedule()", start)
      return run(Effect.flatMap(placeOf(start), (place) => Effect.asVoid(operator.reschedule(idOf(job), place))))
    },
    promoteMany: changing("promoteMany()", "promote", (id) => toleratingEnd(operator.promote(id))),
    rescheduleMany: async (filter, start, options) => {
      checkStart("rescheduleMany()", start)
      const keepsTime = start.delayMs === undefined && start.runAt === undefined
      return changing("rescheduleMany()", keepsTime ? "prioritize" : "reschedule", (id) =>
        Effect.flatMap(placeOf(start), (place) => toleratingEnd(operator.reschedule(id, place))),
      )(filter, options)
    },
    cancelMany: changing("cancelMany()", "cancel", (id) => toleratingEnd(operator.cancel(id))),
    retryMany: changing("retryMany()", "retry", (id) => toleratingRefusal(operator.retry(id))),
  }
}

/** Throws `TypeError` unless this is one time of a start, or a priority, or both. */
const checkStart = (place: string, start: NewStart): void => {
  requireOptions(place, start, newStart)
  const { delayMs, priority, runAt } = start as { readonly [Name in keyof NewStart]?: unknown }
  const times = [delayMs, runAt].filter((time) => time !== undefined).length
  if (times > 1 || (times === 0 && priority === undefined))
    throw new TypeError(`${place} needs either delayMs or runAt, or a priority`)
  if (priority !== undefined) readPriority(priority as PriorityName)
  if (delayMs !== undefined) requireNumber("delayMs", delayMs, { least: 0, most: maxDelayMs })
  if (runAt !== undefined) requireDate("runAt", runAt)
}

/** Returns the priority, and the milliseconds until the start, as of now. */
const placeOf = ({ delayMs, priority, runAt }: NewStart): Effect.Effect<NewPlace> =>
  runAt === undefined
    ? Effect.succeed({ delayMs, priority })
    : Effect.map(Clock.currentTimeMillis, (now) => {
        const untilMs = runAt.getTime() - now
        if (untilMs > maxDelayMs) throw new TypeError("runAt must be at most 366 days from now")
        return { delayMs: Math.max(0, untilMs), priority }
      })
