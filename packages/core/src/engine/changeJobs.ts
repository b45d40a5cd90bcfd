import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import type * as Errors from "../domain/Errors.ts"
import type { JobId, JobStatus, StoreUnavailable } from "../domain/index.ts"
import { JobDirectory, type JobQuery, type JobSummary } from "../ports/index.ts"
import type { AcceptedJob } from "./createJob.ts"
import { countMatching, type MatchJobs, readMatching, type Selection } from "./matchingJobs.ts"
import type { Operator } from "./Operator.ts"
import { publicError } from "./publicError.ts"

/** The outcome of a change for one of many jobs. `skipped`: it needs no change any more. */
export type JobChange = "changed" | "skipped" | { readonly refused: string }

/** The verbs that change many jobs, with the statuses that they apply to. */
export const bulkStatuses = {
  cancel: ["queued", "processing"],
  retry: ["failed"],
  promote: ["queued", "processing"],
  reschedule: ["queued", "processing"],
  /** A change of the priority only, also of parked jobs. */
  prioritize: ["queued", "processing"],
} as const satisfies Readonly<Record<string, ReadonlyArray<JobStatus>>>

export type BulkVerb = keyof typeof bulkStatuses

/** Keeps the jobs that are not parked. Only the run of a parked job has a higher number than its attempts. */
const withoutParked = Effect.fnUntraced(function* (jobs: ReadonlyArray<JobSummary>) {
  const begun = jobs.filter(({ status }) => status === "processing")
  if (begun.length === 0) return jobs
  const waits = yield* (yield* JobDirectory).listWaits(begun.map(({ id }) => id))
  const parked = new Set(begun.filter(({ attempts }, n) => (waits[n]?.at(-1)?.lastAttempt ?? 0) > attempts))
  return jobs.filter((job) => !parked.has(job))
})

/** Keeps those of these unfinished jobs that no worker runs and no event holds back; for `later`, those that are not ready yet. */
const matchWaiting = ({ later }: { readonly later: boolean }): MatchJobs =>
  Effect.fnUntraced(function* (summaries) {
    const [first] = summaries
    const place = first && later ? yield* (yield* JobDirectory).findPlace(first.id) : undefined
    // By the store's clock. The place of a job that has ended since is unknown; then the store decides job by job.
    const since = place?.now ?? -Infinity
    const waiting = summaries.filter(({ claimableAt, held }) => claimableAt !== null && !held && claimableAt > since)
    return yield* withoutParked(waiting)
  })

/** What a verb looks at job by job, so that a dry run counts what it would change. */
const matchesOf: { readonly [Verb in BulkVerb]?: MatchJobs } = {
  promote: matchWaiting({ later: true }),
  reschedule: matchWaiting({ later: false }),
  prioritize: (summaries) => Effect.succeed(summaries.filter(({ claimableAt, held }) => claimableAt !== null && !held)),
}

/** Returns the jobs of a query that a verb may change. */
export const selectionFor = (verb: BulkVerb, query: JobQuery): Selection => ({
  queries: bulkStatuses[verb]
    .filter((status) => query.status === undefined || query.status === status)
    .map((status) => ({ ...query, status })),
  matches: matchesOf[verb],
})

/** Narrows a selection to the jobs that a verb may change. */
export const selectedFor = (verb: BulkVerb, selection: Selection): Selection => {
  const [one, other] = [selection.matches, matchesOf[verb]]
  const both: MatchJobs | undefined =
    one === undefined || other === undefined ? (one ?? other) : (jobs) => Effect.flatMap(one(jobs), other)
  return { ...selection, matches: both }
}

/**
 * A job that has finished meanwhile is skipped. So is one whose start is to be changed, but that runs, is parked, or is ready anyway: then
 * the change returns false.
 */
export const toleratingEnd = <R>(
  change: Effect.Effect<
    boolean | void,
    Errors.JobNotFound | Errors.JobFinished | Errors.JobNotWaiting | StoreUnavailable,
    R
  >,
): Effect.Effect<JobChange, StoreUnavailable, R> =>
  change.pipe(
    Effect.map((changed): JobChange => (changed === false ? "skipped" : "changed")),
    Effect.catchTag(["JobNotFound", "JobFinished", "JobNotWaiting"], () => Effect.succeed<JobChange>("skipped")),
  )

/**
 * A job that was retried before is skipped, and one that cannot be retried is refused: also one with a damaged record, which would
 * otherwise keep those after it from being retried, however often the call is repeated.
 */
export const toleratingRefusal = <R>(
  retrying: Effect.Effect<AcceptedJob, Effect.Error<ReturnType<Operator["Service"]["retry"]>>, R>,
): Effect.Effect<JobChange, StoreUnavailable, R> =>
  retrying.pipe(
    Effect.map(({ replayed }): JobChange => (replayed ? "skipped" : "changed")),
    Effect.catch((error) =>
      error._tag === "StoreUnavailable" ? Effect.fail(error) : Effect.succeed<JobChange>({ refused: error.message }),
    ),
    Effect.catchDefect((defect) => {
      const { name, stack } = publicError(Cause.die(defect))
      const refused: JobChange = { refused: `the job could not be read or retried (${name}); the log has the place` }
      return Effect.as(Effect.logError("a job could not be retried", stack), refused)
    }),
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

/** Jobs that change at the same time. A change is mostly round trips to the store, on connections that workers of the process use too. */
const changesAtOnce = 8

/**
 * Changes jobs, a few at the same time. Returns the outcomes in the order of the jobs. After a failure, no other change begins, and those
 * that have begun end: one that stopped halfway would leave the children of a canceled job running, and no filter selects that job again.
 */
export const changeEach = <R>(
  jobs: ReadonlyArray<Pick<JobSummary, "id">>,
  change: (jobId: JobId) => Effect.Effect<JobChange, StoreUnavailable, R>,
): Effect.Effect<ReadonlyArray<JobChange>, StoreUnavailable, R> =>
  Effect.forEach(jobs, ({ id }) => Effect.uninterruptible(change(id)), { concurrency: changesAtOnce })

/** Changes the next jobs of a selection, or counts all of them. */
export const changeMatching = <R>(
  selection: Selection,
  { after, dryRun, limit, lookMs }: Batch,
  change: (jobId: JobId) => Effect.Effect<JobChange, StoreUnavailable, R>,
) =>
  Effect.gen(function* () {
    if (dryRun === true) return { ...(yield* countMatching(selection)), ...tallyChanges([]), next: null }
    const { jobs, next } = yield* readMatching(selection, { after, limit, lookMs })
    const changes = yield* changeEach(jobs, change)
    return { matched: jobs.length, complete: next === null, ...tallyChanges(changes), next }
  })
