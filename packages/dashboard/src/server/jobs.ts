import * as Effect from "effect/Effect"
import {
  childLabel,
  type Job,
  isEngineStep,
  isId,
  type JobId,
  progressOf,
  submittedOf,
  type WaitRun,
} from "@kiln/core/domain"
import { readMatching, recordLook, requireVisibleRequests, waitingForJob } from "@kiln/core/effect"
import { JobDirectory } from "@kiln/core/ports"
import type { InputOf } from "../api/index.ts"
import { refuse } from "./ApiError.ts"
import { type Caller, observerOf } from "./Caller.ts"
import { formatTime } from "./format.ts"
import { jobFields, limitOf, refuseCursor } from "./jobFields.ts"
import { selectionOf } from "./matching.ts"
import { readProjects, waitingFields } from "./names.ts"

/** Milliseconds for which one response looks for matches. A store reads a bounded number of rows for each of its pages. */
const lookMs = 150
const mostChildren = 50

export const listJobs = ({ query: { after, limit: wanted, ...filter } }: InputOf<"listJobs">) =>
  Effect.gen(function* () {
    const limit = yield* limitOf(wanted)
    const selection = yield* selectionOf(filter)
    const { jobs, lookedAt, next, oldest } = yield* readMatching(selection, { after, limit, lookMs })
    const projects = yield* readProjects
    return {
      jobs: jobs.map((job) => jobFields(job, projects)),
      next,
      looked_at: selection.matches === undefined ? null : { jobs: lookedAt, back_to: formatTime(oldest ?? null) },
    }
  }).pipe(Effect.catchDefect(refuseCursor))

const findJob = Effect.fnUntraced(function* (id: string) {
  if (!isId("job", id)) return yield* Effect.fail(refuse("not_found", "there is no such job"))
  const [job] = yield* (yield* JobDirectory).readJobs([id])
  return job ?? (yield* Effect.fail(refuse("not_found", "there is no such job")))
})

const waitFields = (run: WaitRun) => ({
  first_attempt: run.firstAttempt,
  last_attempt: run.lastAttempt,
  count: run.count,
  reason: run.reason,
  subject: run.subject,
  cause: run.cause,
  first_at: formatTime(run.firstAt),
  last_at: formatTime(run.lastAt),
})

const relativeFields = (job: Job) => ({
  job_id: job.id,
  type: job.kind,
  status: job.status,
  error_code: job.errorCode,
  step: submittedOf(job).parent?.step ?? null,
})

/** The parent and the children of a job. */
const readFamily = Effect.fnUntraced(function* (job: Job) {
  const directory = yield* JobDirectory
  const parentId = submittedOf(job).parent?.jobId
  const children = yield* directory.listJobs({ labels: [childLabel(job.id)], limit: mostChildren })
  const ids: ReadonlyArray<JobId> = [
    ...(parentId === undefined ? [] : [parentId]),
    ...children.jobs.map(({ id }) => id),
  ]
  const jobs = (yield* directory.readJobs(ids)).filter((one) => one !== undefined)
  const parent = jobs.find(({ id }) => id === parentId)
  return {
    parent: parent === undefined ? null : relativeFields(parent),
    children: jobs
      .filter(({ id }) => id !== parentId)
      .map(relativeFields)
      .reverse(),
    children_complete: children.next === undefined,
  }
})

export const readJob = Effect.fnUntraced(function* ({ id }: InputOf<"readJob">) {
  const job = yield* findJob(id)
  const directory = yield* JobDirectory
  const projects = yield* readProjects
  const attempts = (yield* directory.listAttempts(job.id)) ?? []
  const [waits = []] = yield* directory.listWaits([job.id])
  return {
    ...jobFields(job, projects),
    held: job.held,
    deadline_at: formatTime(job.deadlineAt),
    phase_started_at: formatTime(job.phaseStartedAt),
    waited_seconds: job.waitedMs / 1_000,
    ran_seconds: job.ranMs / 1_000,
    upload_id: job.uploadId,
    steps: Object.keys(job.checkpoints).filter((step) => !isEngineStep(step)),
    progress: progressOf(job)?.value ?? null,
    tags: submittedOf(job).tags ?? [],
    files: job.files.map(({ bytes, mediaType, name }) => ({ name, media_type: mediaType, bytes })),
    // Without messages and stacks, which may quote the request.
    failed_attempts: attempts.map((attempt) => ({
      attempt: attempt.number,
      started_at: formatTime(attempt.startedAt),
      duration_seconds: attempt.durationMs / 1_000,
      error_code: attempt.errorCode,
      worker: attempt.worker,
    })),
    waits: waits.map(waitFields),
    waiting_for: (yield* waitingForJob(job)).map(waitingFields),
    charge: job.charge && {
      currency: job.charge.currency,
      amount: job.charge.amount,
      line_items: job.charge.lineItems.map(({ amount, meter, quantity, unitAmount }) => ({
        meter,
        quantity,
        unit_amount: unitAmount,
        amount,
      })),
    },
    ...(yield* readFamily(job)),
  }
})

export const readContent = Effect.fnUntraced(function* ({ id }: InputOf<"readContent">, caller: Caller) {
  yield* Effect.catchTag(requireVisibleRequests, "RequestsHidden", () => Effect.fail(refuse("requests_hidden")))
  const job = yield* findJob(id)
  yield* recordLook(observerOf(caller), { action: "job.read-content", subject: job.id, details: {} })
  const attempts = (yield* (yield* JobDirectory).listAttempts(job.id)) ?? []
  return {
    request: job.request,
    output: job.output,
    attempts: attempts.map(({ message, number, stack }) => ({ attempt: number, message, stack })),
  }
})
