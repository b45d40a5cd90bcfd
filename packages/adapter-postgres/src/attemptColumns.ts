import type { ErrorCode, JobId } from "@kiln/core/domain"

/** Columns of what attempts leave behind. */
export interface Attempts {
  job_seq: number
  number: number
  error_code: ErrorCode
  message: string
  stack: string | null
  started_at: number
  duration_ms: number
  worker: string
}

export interface Checkpoints {
  job_id: JobId
  step: string
  /** A JSON text. */
  value: string
}
