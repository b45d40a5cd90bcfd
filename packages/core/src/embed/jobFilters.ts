import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import {
  isDate,
  type JobStatus,
  labelsWith,
  requireNumber,
  requireOneOf,
  requireOptions,
  submittedOf,
} from "../domain/index.ts"
import { callerMetadata } from "../domain/Submitted.ts"
import type { JobQuery, JobSummary } from "../ports/index.ts"
import { projectAskedFor, requireMode } from "./checkOptions.ts"
import { requireMetadata, requireTags } from "./checkSubmitted.ts"
import type { JobFilter, ListedJob } from "./OperatorVerbs.ts"

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
export const requireCondition = (place: string, filter: JobFilter): void => {
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
