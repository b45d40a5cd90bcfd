import type { Generated } from "kysely"
import type { ErrorCode, FileId, JobId, WaitReason } from "@kiln/core/domain"

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

export interface Waits {
  job_seq: number
  first_attempt: number
  last_attempt: number
  count: number
  reason: WaitReason
  subject: string | null
  cause: string | null
  first_at: number
  last_at: number
}

export interface Checkpoints {
  job_id: JobId
  step: string
  /** A JSON text. */
  value: string
}

export interface Files {
  seq: Generated<number>
  id: FileId
  job_seq: number
  name: string
  blob_key: string
  media_type: string
  bytes: number
  sha256: string
}
