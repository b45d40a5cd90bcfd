import { type FailedAttempt, isEngineStep, type Job, progressOf, type WaitRun } from "@kiln/core/domain"
import type { JobSummary } from "@kiln/core/ports"
import { formatTime } from "../Output.ts"

/** Formats a job as `--json` lists it. Nothing in it is the caller's data. */
export const summaryFields = (job: JobSummary) => ({
  job_id: job.id,
  project_id: job.projectId,
  key_id: job.keyId,
  type: job.kind,
  type_version: job.kindVersion,
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

/**
 * Formats a job as `job show --json` prints it: everything that an operator needs to explain it, and nothing that belongs to the
 * caller. Requests, transcripts and replies may be personal: only `--request` adds the request.
 */
export const jobFields = (job: Job, attempts: ReadonlyArray<FailedAttempt>) => ({
  ...summaryFields(job),
  held: job.held,
  deadline_at: formatTime(job.deadlineAt),
  waited_seconds: job.waitedMs / 1_000,
  ran_seconds: job.ranMs / 1_000,
  upload_id: job.uploadId,
  idempotency_key: job.idempotencyKey,
  checkpoints: Object.keys(job.checkpoints).filter((step) => !isEngineStep(step)),
  progress: progressOf(job)?.value ?? null,
  files: job.files.map(({ bytes, id, mediaType, name, sha256 }) => ({
    file_id: id,
    name,
    media_type: mediaType,
    bytes,
    sha256,
  })),
  failed_attempts: attempts.map(failureFields),
  charge: job.charge && { currency: job.charge.currency, amount: job.charge.amount },
})

/** A failed attempt without its message and stack, which may quote the request. */
const failureFields = ({ durationMs, errorCode, number, startedAt, worker }: FailedAttempt) => ({
  attempt: number,
  started_at: formatTime(startedAt),
  duration_seconds: durationMs / 1_000,
  error_code: errorCode,
  worker,
})

/** Formats a failed attempt as `job attempts --json` prints it. */
export const attemptFields = (attempt: FailedAttempt) => ({
  ...failureFields(attempt),
  message: attempt.message,
  stack: attempt.stack,
})

/** Formats consecutive attempts that waited for the same, as `job attempts --json` prints them. */
export const waitFields = ({ cause, count, firstAt, firstAttempt, lastAt, lastAttempt, reason, subject }: WaitRun) => ({
  first_attempt: firstAttempt,
  last_attempt: lastAttempt,
  count,
  reason,
  subject,
  cause,
  first_at: formatTime(firstAt),
  last_at: formatTime(lastAt),
})

const waitReasons: Readonly<Record<WaitRun["reason"], string>> = {
  children: "waited for its children:",
  after: "waits for its prerequisites:",
  signal: "waits for the signal",
  sleep: "sleeps:",
  provider: "waited for the provider",
  gate: "waited for what its children need:",
  store: "waited for the store, which did not answer",
  blobs: "waited for the blob store, which did not answer",
  isolation: "waited for a turn alone, because its workers were lost",
}

const waitText = (run: WaitRun): string => {
  const { cause, count, firstAt, firstAttempt, lastAt, lastAttempt, reason, subject } = run
  const numbers = count === 1 ? `attempt ${firstAttempt}` : `attempts ${firstAttempt} to ${lastAttempt}`
  const times = count === 1 ? formatTime(firstAt) : `${formatTime(firstAt)} to ${formatTime(lastAt)}`
  const about = [waitReasons[reason], subject, cause === null ? null : `(${cause})`].filter((part) => part !== null)
  return `${numbers}  ${times}  ${about.join(" ")}`
}

/** Formats attempts for people, oldest first: failed ones with their messages and stacks. */
export const formatAttempts = (attempts: ReadonlyArray<FailedAttempt>, waits: ReadonlyArray<WaitRun>): string =>
  [
    ...attempts.map((attempt) => ({ number: attempt.number, text: failureText(attempt) })),
    ...waits.map((run) => ({ number: run.firstAttempt, text: waitText(run) })),
  ]
    .toSorted((one, other) => one.number - other.number)
    .map(({ text }) => text)
    .join("\n\n")

const failureText = (attempt: FailedAttempt): string => {
  const { attempt: number, duration_seconds, error_code, message, stack, started_at, worker } = attemptFields(attempt)
  const head = `attempt ${number}  ${started_at}  ${duration_seconds} s  ${error_code}  ${worker}`
  return [head, ...[message, ...(stack === null ? [] : [stack])].flatMap(indented)].join("\n")
}

/** Control characters of foreign texts must not reach the terminal. */
const indented = (text: string): ReadonlyArray<string> =>
  text.split("\n").map((line) => `  ${line.replaceAll(/\p{Cc}/gu, "\ufffd")}`)

const plain = (value: unknown): string => {
  if (value === null) return "-"
  if (Array.isArray(value)) return value.length === 0 ? "-" : value.map(plain).join("\n")
  if (typeof value === "object") return Object.values(value).map(plain).join("  ")
  return typeof value === "string" ? value : JSON.stringify(value)
}

/** Formats named values as aligned lines; a list takes a line for each entry. */
export const formatFields = (fields: Readonly<Record<string, unknown>>): string => {
  const width = Math.max(...Object.keys(fields).map((name) => name.length))
  return Object.entries(fields)
    .flatMap(([name, value]) =>
      plain(value)
        .split("\n")
        .map((line, index) => `${(index === 0 ? name : "").padEnd(width)}  ${line}`),
    )
    .join("\n")
}
