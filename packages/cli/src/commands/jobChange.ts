import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import type { JobFinished, JobNotFound, JobNotWaiting } from "@kiln/core"
import type { StoreUnavailable } from "@kiln/core/domain"
import {
  type BulkVerb,
  changeEach,
  type Operator,
  readMatching,
  type RetryOptions,
  selectionFor,
  tallyChanges,
  toleratingEnd,
  toleratingRefusal,
} from "@kiln/core/effect"
import type { CreateOutcome, JobQuery } from "@kiln/core/ports"
import { failed, misused } from "../CommandFailed.ts"
import { answer } from "../Output.ts"
import { hasTag, recordChange } from "../recordChange.ts"
import { withOperator } from "../withOperator.ts"
import { filterFlags, hasFilter, queryOf } from "./jobFilter.ts"
import { requireKnownType } from "./jobList.ts"
import { changesRequest, type RequestGiven, requestFlags, requestGiven } from "./requestFlags.ts"

/** Jobs that one command changes at most. It can be repeated. */
const mostJobs = 10_000

export const unknownJob = (jobId: string) => failed(`there is no job ${jobId}: see kiln job list`)

export const changeFlags = {
  id: Argument.String("JOB_ID").pipe(
    Argument.withDescription("The job's id, from `kiln job list`; without it, all jobs that the flags select"),
    Argument.optional,
  ),
  ...filterFlags,
  dryRun: Flag.Boolean("dry-run").pipe(
    Flag.withDescription("Count the jobs that the flags select, without changing anything"),
    Flag.withDefault(false),
  ),
  yes: Flag.Boolean("yes").pipe(Flag.withDescription("Change all jobs that the flags select"), Flag.withDefault(false)),
}

/** Finds the jobs that the query selects and the verb may change. */
const findJobs = Effect.fnUntraced(function* (query: JobQuery, verb: BulkVerb) {
  yield* requireKnownType(query.kind)
  const { jobs, next } = yield* readMatching(selectionFor(verb, query), { limit: mostJobs, lookMs: Infinity })
  return { jobs, isComplete: next === null }
})

export const counted = (count: number): string => `${count} ${count === 1 ? "job" : "jobs"}`

const canceled = (operator: Operator["Service"], jobId: string) =>
  operator.cancel(jobId).pipe(recordChange({ action: "job.cancel", subject: jobId }, hasTag("Canceled")))

/** The job that a retry created, in the answer of the store. */
const newJobOf = (outcomes: unknown) => {
  const [outcome] = outcomes as ReadonlyArray<CreateOutcome>
  return outcome?._tag === "Created" ? { retried_as: outcome.job.id } : {}
}

const retried = (operator: Operator["Service"], jobId: string, options: RetryOptions) => {
  const details = options.request === undefined ? {} : { request_changed: true }
  return operator
    .retry(jobId, options)
    .pipe(recordChange({ action: "job.retry", subject: jobId, details }, hasTag("Created"), newJobOf))
}

const retryFlags = {
  ...changeFlags,
  fromStart: Flag.Boolean("from-start").pipe(
    Flag.withDescription("Run all steps and children again, also those that the failed job had finished"),
    Flag.withDefault(false),
  ),
  ...requestFlags,
}

const promoted = (operator: Operator["Service"], jobId: string) =>
  operator.promote(jobId).pipe(recordChange({ action: "job.promote", subject: jobId }, hasTag("Rescheduled")))

export type Given = Parameters<typeof hasFilter>[0] & { readonly dryRun: boolean; readonly yes: boolean }

const pastOf = {
  cancel: "canceled",
  retry: "retried",
  promote: "promoted",
  reschedule: "rescheduled",
  prioritize: "rescheduled",
} as const

/** Selects the jobs of a command without a job id, and says how many there are unless it may change them. */
export const selected = Effect.fnUntraced(function* (given: Given, verb: BulkVerb) {
  const command = `kiln job ${verb === "prioritize" ? "reschedule" : verb}`
  if (!hasFilter(given))
    return yield* misused(`${command} needs a JOB_ID, or flags that select jobs, such as --type or --error-code`)
  const { isComplete, jobs } = yield* findJobs(yield* queryOf(given), verb)
  const more = isComplete ? "" : " at least; repeat the command for the rest"
  if (given.dryRun) {
    yield* answer({
      json: { dry_run: true, matched: jobs.length, complete: isComplete, job_ids: jobs.map(({ id }) => id) },
      text: `${command} would change ${counted(jobs.length)}${more} (--dry-run)`,
    })
    return undefined
  }
  if (!given.yes && jobs.length > 0)
    return yield* misused(
      `${counted(jobs.length)}${more} would be ${pastOf[verb]}: repeat with --yes to do it, or with --dry-run to list them`,
    )
  return { jobs, isComplete }
})

const cancelSelected = Effect.fnUntraced(function* (operator: Operator["Service"], given: Given) {
  const found = yield* selected(given, "cancel")
  if (found === undefined) return
  const outcomes = yield* changeEach(found.jobs, (id) => toleratingEnd(canceled(operator, id)))
  const { changed, skipped } = tallyChanges(outcomes)
  const counts = { canceled: changed, finished: skipped }
  yield* answer({
    json: { matched: found.jobs.length, ...counts, complete: found.isComplete },
    text: `${counted(counts.canceled)} canceled, ${counts.finished} had finished meanwhile${found.isComplete ? "" : "; there are more: repeat the command"}`,
  })
})

const retrySelected = Effect.fnUntraced(function* (
  operator: Operator["Service"],
  given: Given & RequestGiven & { readonly fromStart: boolean },
) {
  if (changesRequest(given))
    return yield* misused("--request and --request-file change the request of one job: give its JOB_ID")
  const found = yield* selected(given, "retry")
  if (found === undefined) return
  const outcomes = yield* changeEach(found.jobs, (id) =>
    toleratingRefusal(retried(operator, id, given.fromStart ? { from: "start" } : {})),
  )
  const refusals = found.jobs.flatMap(({ id }, n) => {
    const outcome = outcomes[n]
    return typeof outcome === "object" ? [{ job_id: id, message: outcome.refused }] : []
  })
  const { changed, skipped } = tallyChanges(outcomes)
  const counts = { retried: changed, retried_before: skipped, refused: refusals.length }
  const reasons = [...new Set(refusals.map(({ message }) => message))].map((message) => `\n  ${message}`)
  yield* answer({
    json: { matched: found.jobs.length, ...counts, refusals, complete: found.isComplete },
    text:
      `${counted(counts.retried)} retried, ${counts.retried_before} had been retried before, ${counts.refused} refused` +
      (found.isComplete
        ? ""
        : "; there are more: repeat the command with --to, set to the time of the oldest of these") +
      reasons.join(""),
  })
})

const promoteSelected = Effect.fnUntraced(function* (operator: Operator["Service"], given: Given) {
  const found = yield* selected(given, "promote")
  if (found === undefined) return
  const outcomes = yield* changeEach(found.jobs, (id) => toleratingEnd(promoted(operator, id)))
  const { changed, skipped } = tallyChanges(outcomes)
  yield* answer({
    json: { matched: found.jobs.length, promoted: changed, skipped, complete: found.isComplete },
    text: `${counted(changed)} promoted, ${skipped} had started or ended meanwhile${found.isComplete ? "" : "; there are more: repeat the command"}`,
  })
})

export const oneJob = (given: Given & { readonly id: Option.Option<string> }) =>
  Effect.suspend(() => {
    if (Option.isNone(given.id)) return Effect.succeed(undefined)
    return hasFilter(given) || given.dryRun || given.yes
      ? misused("give a JOB_ID or flags that select jobs, not both")
      : Effect.succeed(given.id.value)
  })

export const jobCancel = Command.make("cancel", changeFlags, (given) =>
  withOperator((operator) =>
    Effect.gen(function* () {
      const jobId = yield* oneJob(given)
      if (jobId === undefined) return yield* cancelSelected(operator, given)
      yield* canceled(operator, jobId).pipe(
        Effect.catchTags({
          JobNotFound: () => unknownJob(jobId),
          JobFinished: () => failed(`${jobId} is finished already`),
        }),
      )
      yield* answer({
        json: { job_id: jobId, status: "failed", error_code: "canceled_by_operator" },
        text: `${jobId} was canceled; a worker that runs it stops within seconds`,
      })
    }),
  ),
).pipe(
  Command.withDescription(
    "Fail an unfinished job (canceled_by_operator), or all that flags select; they are not charged",
  ),
)

/** Explains why the start of a job was not changed. */
export const explained = <A, R>(
  jobId: string,
  verb: string,
  change: Effect.Effect<A, JobNotFound | JobFinished | JobNotWaiting | StoreUnavailable, R>,
) =>
  change.pipe(
    Effect.catchTags({
      JobNotFound: () => unknownJob(jobId),
      JobFinished: () => failed(`${jobId} is finished already`),
      JobNotWaiting: (error) => failed(`${jobId} was not ${verb}: ${error.message}`),
    }),
  )

export const jobPromote = Command.make("promote", changeFlags, (given) =>
  withOperator((operator) =>
    Effect.gen(function* () {
      const jobId = yield* oneJob(given)
      if (jobId === undefined) return yield* promoteSelected(operator, given)
      const changed = yield* explained(jobId, "promoted", promoted(operator, jobId))
      yield* answer({
        json: { job_id: jobId, promoted: changed },
        text: changed
          ? `${jobId} may start now`
          : `${jobId} is ready already, and waits for a worker: kiln job show ${jobId}`,
      })
    }),
  ),
).pipe(
  Command.withDescription("Let a job that waits for its start or its next attempt start now, or all that flags select"),
)

export const jobRetry = Command.make("retry", retryFlags, (given) =>
  withOperator((operator) =>
    Effect.gen(function* () {
      const jobId = yield* oneJob(given)
      if (jobId === undefined) return yield* retrySelected(operator, given)
      const changed = yield* requestGiven(given)
      const options: RetryOptions = { ...(given.fromStart && { from: "start" }), ...changed }
      const { job, replayed } = yield* retried(operator, jobId, options).pipe(
        Effect.mapError((error) => {
          switch (error._tag) {
            case "JobNotFound":
              return unknownJob(jobId)
            case "StoreUnavailable":
              return error
            default:
              return failed(`${jobId} was not retried: ${error.message}`)
          }
        }),
      )
      yield* answer({
        json: { job_id: job.id, status: job.status, retry_of: jobId, replayed },
        text: replayed ? `${jobId} was retried before, as ${job.id}` : `${jobId} is retried as ${job.id}`,
      })
    }),
  ),
).pipe(
  Command.withDescription(
    "Create a new job from the request of a failed one, or a changed one, or of all that flags select, at the current price",
  ),
)
