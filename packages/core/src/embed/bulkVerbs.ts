import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import {
  isDate,
  type JobStatus,
  labelsWith,
  readPriority,
  requireFlag,
  requireNumber,
  requireOneOf,
  requireOptions,
  type StoreUnavailable,
  submittedOf,
} from "../domain/index.ts"
import type { PriorityName } from "../domain/Priority.ts"
import { callerMetadata } from "../domain/JobMetadata.ts"
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
import type { Kind } from "../kinds/KindDefinition.ts"
import type { JobQuery, JobSummary } from "../ports/index.ts"
import { bulkOptions, jobFilter, newStart, projectAskedFor, requireMode } from "./checkOptions.ts"
import { requireMetadata, requireTags } from "./checkSubmitted.ts"
import type { EngineRuntime } from "./EngineRuntime.ts"
import { idOf } from "./toJobResult.ts"
import type { BulkOptions, BulkResult, JobFilter, ListedJob, NewStart, OperatorVerbs } from "./OperatorVerbs.ts"

const statuses: { readonly [Status in JobStatus]: true } = { queued: true, processing: true, done: true, failed: true }

export const requireDate = (name: string, value: unknown, hint = ""): void => {
  if (!isDate(value) || Number.isNaN(value.getTime())) throw new TypeError(`${name} must be a valid Date${hint}`)
}

const noBound = "; leave it out for no bound"
const noCondition = "; leave it out for no condition"

/** Throws `TypeError` for conditions of a verb that do not exist or have another type. */
export const checkFilter = (place: string, filter: JobFilter, names: Readonly<Record<string, true>>): void => {
  requireOptions(place, filter, names)
  // A store takes null for the absence of a condition, which would select all jobs.
  for (const name of ["project", "kind", "keyId", "errorCode"] as const) requireText(name, filter[name])
  labelsAskedFor(filter)
  if (filter.status !== undefined) requireOneOf("status", filter.status, Object.keys(statuses))
  if (filter.mode !== undefined) requireMode(filter.mode)
  if (filter.createdFrom !== undefined) requireDate("createdFrom", filter.createdFrom, noBound)
  if (filter.createdTo !== undefined) requireDate("createdTo", filter.createdTo, noBound)
  if (filter.olderThanMs !== undefined) requireNumber("olderThanMs", filter.olderThanMs, { least: 0 })
}

const requireText = (name: string, value: unknown): void => {
  if (value !== undefined && (typeof value !== "string" || value === ""))
    throw new TypeError(`${name} must be a text that is not empty${noCondition}`)
}

/**
 * Throws `TypeError` for a filter without a condition. A status alone is none, because each verb applies to some statuses only, and neither
 * are no tags, no metadata and an age of 0.
 */
const requireCondition = (place: string, filter: JobFilter): void => {
  const { metadata, olderThanMs, status: _, tags, ...conditions } = filter
  const isEmpty = labelsAskedFor({ ...(tags && { tags }), ...(metadata && { metadata }) }) === undefined
  if (isEmpty && (olderThanMs ?? 0) === 0 && Object.values(conditions).every((value) => value === undefined))
    throw new TypeError(`${place} needs a condition besides status, or it would change all jobs; kind, for example`)
}

/** Throws `TypeError` for tags and metadata that no job can have. */
export const labelsAskedFor = ({
  metadata,
  tags,
}: Pick<JobFilter, "tags" | "metadata">): ReadonlyArray<string> | undefined => {
  if (tags === undefined && metadata === undefined) return undefined
  if (tags !== undefined) requireTags("tags", tags)
  if (metadata !== undefined) requireMetadata("metadata", metadata)
  const labels = labelsWith({ ...(tags && { tags }), ...(metadata && { metadata }) })
  return labels.length === 0 ? undefined : labels
}

/** Returns the query of a filter, as of now. */
export const queryOf = (filter: JobFilter): Effect.Effect<JobQuery> => {
  const { createdFrom, createdTo, errorCode, keyId, kind, metadata, mode, olderThanMs, project, status, tags } = filter
  const query: JobQuery = {
    errorCode,
    keyId,
    kind,
    mode,
    status,
    labels: labelsAskedFor({ ...(tags && { tags }), ...(metadata && { metadata }) }),
    projectId: project === undefined ? undefined : projectAskedFor(project),
    createdFrom: createdFrom?.getTime(),
    createdTo: createdTo?.getTime(),
  }
  if (olderThanMs === undefined) return Effect.succeed(query)
  return Effect.map(Clock.currentTimeMillis, (now) => ({
    ...query,
    // Exclusive: one that is exactly as old matches.
    createdTo: Math.min(query.createdTo ?? Infinity, Math.floor(now - olderThanMs) + 1),
  }))
}

export const listedJob = (summary: JobSummary): ListedJob => {
  const { claimableAt, createdAt, finishedAt, held, metadata: _, phaseStartedAt, ...job } = summary
  return {
    ...job,
    tags: submittedOf(summary).tags ?? [],
    metadata: callerMetadata(summary),
    startedAt: held && phaseStartedAt !== null ? new Date(phaseStartedAt) : null,
    createdAt: new Date(createdAt),
    claimableAt: claimableAt === null ? null : new Date(claimableAt),
    finishedAt: finishedAt === null ? null : new Date(finishedAt),
  }
}

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
