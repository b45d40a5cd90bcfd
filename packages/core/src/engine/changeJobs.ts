import * as Effect from "effect/Effect"
import type * as Errors from "../domain/Errors.ts"
import type { JobId, JobStatus, StoreUnavailable } from "../domain/index.ts"
import type { AcceptedJob, Refused } from "./acceptedOf.ts"
import { countMatching, readMatching, type Selection } from "./matchingJobs.ts"

/** The outcome of a change for one of many jobs. `skipped`: it needs no change any more. */
export type JobChange = "changed" | "skipped" | { readonly refused: string }

/** The verbs that change many jobs, with the statuses that they apply to. */
export const bulkStatuses = {
  cancel: ["queued", "processing"],
  retry: ["failed"],
} as const satisfies Readonly<Record<string, ReadonlyArray<JobStatus>>>

export type BulkVerb = keyof typeof bulkStatuses

/** A job that has finished meanwhile is skipped. */
export const toleratingEnd = <R>(
  canceling: Effect.Effect<void, Errors.JobNotFound | Errors.JobFinished | StoreUnavailable, R>,
): Effect.Effect<JobChange, StoreUnavailable, R> =>
  canceling.pipe(
    Effect.as<JobChange>("changed"),
    Effect.catchTags({
      JobNotFound: () => Effect.succeed<JobChange>("skipped"),
      JobFinished: () => Effect.succeed<JobChange>("skipped"),
    }),
  )

/** A job that was retried before is skipped, and one that cannot be retried is refused. */
export const toleratingRefusal = <R>(
  retrying: Effect.Effect<AcceptedJob, Errors.JobNotFound | Errors.JobNotRetryable | Refused | StoreUnavailable, R>,
): Effect.Effect<JobChange, StoreUnavailable, R> =>
  retrying.pipe(
    Effect.map(({ replayed }): JobChange => (replayed ? "skipped" : "changed")),
    Effect.catch((error) =>
      error._tag === "StoreUnavailable" ? Effect.fail(error) : Effect.succeed<JobChange>({ refused: error.message }),
    ),
  )

/** Counts outcomes, refusals by their message. */
export const tallyChanges = (changes: ReadonlyArray<JobChange>) => {
  const messages = changes.flatMap((change) => (typeof change === "object" ? [change.refused] : []))
  return {
    changed: changes.filter((change) => change === "changed").length,
    skipped: changes.filter((change) => change === "skipped").length,
    refused: [...Map.groupBy(messages, (message) => message)].map(([message, all]) => ({ message, count: all.length })),
  }
}

interface Batch {
  readonly after?: string | undefined
  readonly limit: number
  readonly lookMs: number
  /** Counts all that match, and changes nothing. */
  readonly dryRun?: boolean | undefined
}

/** Changes the next jobs of a selection, or counts all of them. */
export const changeMatching = <R>(
  selection: Selection,
  { after, dryRun, limit, lookMs }: Batch,
  change: (jobId: JobId) => Effect.Effect<JobChange, StoreUnavailable, R>,
) =>
  Effect.gen(function* () {
    if (dryRun === true) return { ...(yield* countMatching(selection)), ...tallyChanges([]), next: null }
    const { jobs, next } = yield* readMatching(selection, { after, limit, lookMs })
    const changes = yield* Effect.forEach(jobs, ({ id }) => change(id))
    return { matched: jobs.length, complete: next === null, ...tallyChanges(changes), next }
  })
