import type { Job } from "@kiln/core/domain"
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
 * caller. Requests, transcripts and replies may be personal, so no command prints them.
 */
export const jobFields = (job: Job) => ({
  ...summaryFields(job),
  held: job.held,
  deadline_at: formatTime(job.deadlineAt),
  waited_seconds: job.waitedMs / 1_000,
  ran_seconds: job.ranMs / 1_000,
  upload_id: job.uploadId,
  idempotency_key: job.idempotencyKey,
  checkpoints: Object.keys(job.checkpoints),
  files: job.files.map(({ bytes, id, mediaType, name, sha256 }) => ({
    file_id: id,
    name,
    media_type: mediaType,
    bytes,
    sha256,
  })),
  charge: job.charge && { currency: job.charge.currency, amount: job.charge.amount },
})

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
