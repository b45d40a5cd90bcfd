import * as Effect from "effect/Effect"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import { eraseJobData, JobEvents, type Operator } from "@kiln/core/effect"
import { isId, type Job } from "@kiln/core/domain"
import { type CreateOutcome, JobDirectory } from "@kiln/core/ports"
import { causeMessage, failed } from "../CommandFailed.ts"
import { claimBlobStore } from "../installation/claimBlobStore.ts"
import { answer } from "../Output.ts"
import { hasTag, recordChange } from "../recordChange.ts"
import { withBlobs } from "../withBlobs.ts"
import { withOperator } from "../withOperator.ts"
import { withStores } from "../withStores.ts"
import { attemptFields, formatAttempts, formatFields, jobFields } from "./jobFields.ts"
import { jobList } from "./jobList.ts"

const id = Argument.String("JOB_ID").pipe(Argument.withDescription("The job's id, from `kiln job list`"))

const unknown = (jobId: string) => failed(`there is no job ${jobId}: see kiln job list`)

/** Returns the job of any project. */
const readJob = Effect.fnUntraced(function* (jobId: string) {
  const [job] = isId("job", jobId) ? yield* (yield* JobDirectory).readJobs([jobId]) : []
  return job ?? (yield* unknown(jobId))
})

const readAttempts = Effect.fnUntraced(function* (jobId: Job["id"]) {
  return (yield* (yield* JobDirectory).listAttempts(jobId)) ?? []
})

const show = Command.make("show", { id }, ({ id: jobId }) =>
  withStores(
    Effect.gen(function* () {
      const job = yield* readJob(jobId)
      const fields = jobFields(job, yield* readAttempts(job.id))
      yield* answer({ json: fields, text: formatFields(fields) })
    }),
  ),
).pipe(Command.withDescription("Show a job, without the data of its caller"))

const attempts = Command.make("attempts", { id }, ({ id: jobId }) =>
  withStores(
    Effect.gen(function* () {
      const { id: known } = yield* readJob(jobId)
      const failures = yield* readAttempts(known)
      yield* answer({
        json: { job_id: known, attempts: failures.map(attemptFields) },
        text: failures.length === 0 ? `no attempt of ${known} has left an error` : formatAttempts(failures),
      })
    }),
  ),
).pipe(
  Command.withDescription(
    "Show the newest failed attempts of a job with their messages and stacks, which may quote the request",
  ),
)

const cancel = Command.make("cancel", { id }, ({ id: jobId }) =>
  withOperator((operator) =>
    Effect.gen(function* () {
      yield* operator.cancel(jobId).pipe(
        recordChange({ action: "job.cancel", subject: jobId }, hasTag("Canceled")),
        Effect.catchTags({
          JobNotFound: () => unknown(jobId),
          JobFinished: () => failed(`${jobId} is finished already`),
        }),
      )
      yield* answer({
        json: { job_id: jobId, status: "failed", error_code: "canceled_by_operator" },
        text: `${jobId} was canceled; a worker that runs it stops within seconds`,
      })
    }),
  ),
).pipe(Command.withDescription("Fail an unfinished job (canceled_by_operator); it is not charged"))

/** The job that a retry created, in the answer of the store. */
const newJobOf = (outcomes: unknown) => {
  const [outcome] = outcomes as ReadonlyArray<CreateOutcome>
  return outcome?._tag === "Created" ? { retried_as: outcome.job.id } : {}
}

const retried = (operator: Operator["Service"], jobId: string) =>
  operator.retry(jobId).pipe(
    recordChange({ action: "job.retry", subject: jobId }, hasTag("Created"), newJobOf),
    Effect.mapError((error) => {
      switch (error._tag) {
        case "JobNotFound":
          return unknown(jobId)
        case "StoreUnavailable":
          return error
        default:
          return failed(`${jobId} was not retried: ${error.message}`)
      }
    }),
  )

const retry = Command.make("retry", { id }, ({ id: jobId }) =>
  withOperator((operator) =>
    Effect.gen(function* () {
      const { job, replayed } = yield* retried(operator, jobId)
      yield* answer({
        json: { job_id: job.id, status: job.status, retry_of: jobId, replayed },
        text: replayed ? `${jobId} was retried before, as ${job.id}` : `${jobId} is retried as ${job.id}`,
      })
    }),
  ),
).pipe(Command.withDescription("Create a new job from the request of a failed one, at the current price"))

/** The owner, as whom the data is erased. */
const ownerOf = ({ keyId, mode, projectId }: Job) => ({ keyId, mode, projectId, scopes: [] })

const purgeData = Command.make("purge-data", { id }, ({ id: jobId }) =>
  withBlobs(() =>
    Effect.gen(function* () {
      const job = yield* readJob(jobId)
      yield* claimBlobStore
      yield* eraseJobData(ownerOf(job), job.id).pipe(
        recordChange({ action: "job.purge-data", subject: jobId }, hasTag("Erased")),
        Effect.provide(JobEvents.layer),
        Effect.catchTags({
          JobNotFound: () => unknown(jobId),
          JobProcessing: () =>
            failed(`${jobId} is ${job.status}: wait until it is finished, or run kiln job cancel ${jobId} first`),
          BlobUnavailable: (error) =>
            failed(
              `the data of ${jobId} can no longer be read, but its files could not be removed yet (${causeMessage(error.cause)}); a running server removes them later`,
            ),
        }),
      )
      const before = job.retained
      yield* answer({
        json: { job_id: job.id, data: "deleted", data_before: before },
        text:
          before === "kept"
            ? `the data of ${jobId} was deleted; its record, codes and charge stay`
            : `the data of ${jobId} was already deleted (${before})`,
      })
    }),
  ),
).pipe(Command.withDescription("Delete the request, results and files of a finished job immediately; its record stays"))

export const jobCommand = Command.make("job").pipe(
  Command.withDescription("List, show, cancel and retry jobs, and delete their data"),
  Command.withSubcommands([jobList, show, attempts, cancel, retry, purgeData]),
)
