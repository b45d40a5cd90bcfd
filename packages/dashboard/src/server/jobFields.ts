import * as Effect from "effect/Effect"
import { isId, labelsWith } from "@kiln/core/domain"
import type { JobQuery, JobSummary, Project } from "@kiln/core/ports"
import type { InputOf } from "../api/index.ts"
import { refuse } from "./ApiError.ts"
import { formatTime } from "./format.ts"
import { projectIdOf } from "./names.ts"

/** Formats a job as the list shows it. Nothing in it is the caller's data. */
export const jobFields = (job: JobSummary, projects: ReadonlyArray<Project>) => ({
  job_id: job.id,
  project_id: job.projectId,
  project_name: projects.find(({ id }) => id === job.projectId)?.name ?? null,
  key_id: job.keyId,
  type: job.kind,
  mode: job.mode,
  status: job.status,
  priority: job.priority,
  attempts: job.attempts,
  failures: job.failures,
  lost_workers: job.lostWorkers,
  error_code: job.errorCode,
  warning_code: job.warningCode,
  data: job.retained,
  created_at: formatTime(job.createdAt),
  claimable_at: formatTime(job.claimableAt),
  finished_at: formatTime(job.finishedAt),
})

export type Filter = Omit<InputOf<"listJobs">["query"], "after" | "limit">

export const momentOf = (name: string, text: string | undefined) => {
  if (text === undefined) return Effect.succeed(undefined)
  const time = Date.parse(text)
  return /^\d{4}-\d\d-\d\d/.test(text) && !Number.isNaN(time)
    ? Effect.succeed(time)
    : Effect.fail(refuse("invalid_request", `${name} must be a time like 2026-11-01T12:00:00Z`))
}

const keyOf = (key: string | undefined) => {
  if (key === undefined) return Effect.succeed(undefined)
  return isId("key", key)
    ? Effect.succeed(key)
    : Effect.fail(refuse("invalid_request", "key must be the id of a key: key_…"))
}

/** Returns the query of a filter, as far as stores select by it. */
export const queryOf = Effect.fnUntraced(function* (filter: Omit<Filter, "id" | "waiting_for">) {
  return {
    kind: filter.type,
    status: filter.status,
    mode: filter.mode,
    errorCode: filter.error_code,
    projectId: filter.project === undefined ? undefined : yield* projectIdOf(filter.project),
    keyId: yield* keyOf(filter.key),
    labels: filter.tag === undefined ? undefined : labelsWith({ tags: [filter.tag] }),
    createdFrom: yield* momentOf("from", filter.from),
    createdTo: yield* momentOf("to", filter.to),
  } satisfies JobQuery
})

const mostListed = 200

/** Returns a page size from 1 to 200. */
export const limitOf = (limit = 50) =>
  Number.isSafeInteger(limit) && limit >= 1 && limit <= mostListed
    ? Effect.succeed(limit)
    : Effect.fail(refuse("invalid_request", `limit must be from 1 to ${mostListed}`))

/** Each store has its own cursors, and treats an invalid one as a defect. */
export const refuseCursor = (defect: unknown) =>
  defect instanceof TypeError && defect.message === "invalid cursor"
    ? Effect.fail(refuse("invalid_request", "after must be the next of an earlier response"))
    : Effect.die(defect)
