import * as Effect from "effect/Effect"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import { eraseJobData, JobEvents, readRequest, waitingForJob } from "@kiln/core/effect"
import { isId, type Job, type JsonObject } from "@kiln/core/domain"
import { JobDirectory } from "@kiln/core/ports"
import { causeMessage, failed } from "../CommandFailed.ts"
import { claimBlobStore } from "../installation/claimBlobStore.ts"
import { answer } from "../Output.ts"
import { changedBy, hasTag, recordChange } from "../recordChange.ts"
import { withBlobs } from "../withBlobs.ts"
import { withKinds } from "../withKinds.ts"
import { withStores } from "../withStores.ts"
import { attemptFields, formatAttempts, formatFields, jobFields, waitFields } from "./jobFields.ts"
import { jobCancel, jobPromote, jobRetry, unknownJob } from "./jobChange.ts"
import { jobReschedule } from "./jobReschedule.ts"
import { jobList } from "./jobList.ts"
import { jobSignal } from "./jobSignal.ts"
import { waitingFields, waitingText } from "./waitingText.ts"

const id = Argument.String("JOB_ID").pipe(Argument.withDescription("The job's id, from `kiln job list`"))

/** Returns the job of any project. */
const readJob = Effect.fnUntraced(function* (jobId: string) {
  const [job] = isId("job", jobId) ? yield* (yield* JobDirectory).readJobs([jobId]) : []
  return job ?? (yield* unknownJob(jobId))
})

const readAttempts = Effect.fnUntraced(function* (jobId: Job["id"]) {
  return (yield* (yield* JobDirectory).listAttempts(jobId)) ?? []
})

const request = Flag.Boolean("request").pipe(
  Flag.withDescription("Show the request too, which may be personal; the look is recorded in the audit log"),
  Flag.withDefault(false),
)

/** Reads the request of a job. */
const readContent = (jobId: string) =>
  Effect.flatMap(changedBy, (observer) => readRequest(jobId, observer)).pipe(
    Effect.catchTags({
      JobNotFound: () => unknownJob(jobId),
      RequestsHidden: (error) => failed(`the request of ${jobId} is not shown: ${error.message}`),
    }),
  )

/** Formats a request for a terminal, which no control character of it may reach. */
const requestText = (content: JsonObject | null): string =>
  content === null
    ? "the request is gone"
    : JSON.stringify(content, null, 2).replaceAll(/[^\P{Cc}\n]/gu, (character) => unicodeEscape(character))

const unicodeEscape = (character: string): string => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`

const show = Command.make("show", { id, request }, ({ id: jobId, request: showsRequest }) =>
  withKinds(
    Effect.gen(function* () {
      const job = yield* readJob(jobId)
      const fields = jobFields(job, yield* readAttempts(job.id))
      const waiting = yield* waitingForJob(job)
      const content = showsRequest ? yield* readContent(jobId) : undefined
      const { job_id, status, ...rest } = fields
      const shown = content === undefined ? {} : { request: content }
      yield* answer({
        json: { ...fields, waiting_for: waiting.map(waitingFields), ...shown },
        text:
          formatFields({ job_id, status, waiting_for: waiting.map(waitingText), ...rest }) +
          (content === undefined ? "" : `\n\nrequest\n${requestText(content)}`),
      })
    }),
  ),
).pipe(
  Command.withDescription("Show a job and what it waits for, without the data of its caller unless --request is given"),
)

const attempts = Command.make("attempts", { id }, ({ id: jobId }) =>
  withStores(
    Effect.gen(function* () {
      const { id: known } = yield* readJob(jobId)
      const failures = yield* readAttempts(known)
      const [waits = []] = yield* (yield* JobDirectory).listWaits([known])
      yield* answer({
        json: { job_id: known, attempts: failures.map(attemptFields), waits: waits.map(waitFields) },
        text:
          failures.length + waits.length === 0
            ? `no attempt of ${known} has failed or ended to wait`
            : formatAttempts(failures, waits),
      })
    }),
  ),
).pipe(
  Command.withDescription(
    "Show the newest attempts of a job that failed, with messages and stacks, which may quote the request, or that ended to wait",
  ),
)

/** The owner, as whom the data is erased. */
const ownerOf = ({ keyId, mode, projectId }: Job) => ({ keyId, mode, projectId, scopes: [] })

const eraseData = Command.make("erase-data", { id }, ({ id: jobId }) =>
  withBlobs(() =>
    Effect.gen(function* () {
      const job = yield* readJob(jobId)
      yield* claimBlobStore
      yield* eraseJobData(ownerOf(job), job.id).pipe(
        recordChange({ action: "job.erase-data", subject: jobId }, hasTag("Erased")),
        Effect.provide(JobEvents.layer),
        Effect.catchTags({
          JobNotFound: () => unknownJob(jobId),
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
).pipe(
  Command.withDescription("Delete the request, results and files of a finished job immediately; its record stays"),
  // The name before the engine and the client said `eraseData`.
  Command.withAlias("purge-data"),
)

export const jobCommand = Command.make("job").pipe(
  Command.withDescription("List, show, signal, cancel, retry and promote jobs, and delete their data"),
  Command.withSubcommands([
    jobList,
    show,
    attempts,
    jobSignal,
    jobCancel,
    jobRetry,
    jobPromote,
    jobReschedule,
    eraseData,
  ]),
)
