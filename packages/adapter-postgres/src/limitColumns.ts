import type { Generated } from "kysely"
import type { JobId, JobMode, ProjectId, SpendOwner } from "@kiln/core/domain"

/** Columns of limits, schedules, labels, deliveries and retention. */

export interface Purges {
  id: Generated<number>
  blob_prefix: string
  recorded_at: number
  failures: Generated<number>
  due_at: Generated<number>
}

export interface RetentionRules {
  kind: string
  publisher: string
  program: string
  data_ms: number | null
  jobs_ms: number | null
  live_until: number
}

export interface Deliveries {
  job_id: JobId
  kind: string
  due_at: number
  attempts: number
  token: number
}

export interface Schedules {
  name: string
  version: number
  next_at: number | null
  /** A JSON text. */
  document: string
}

export interface RateBuckets {
  bucket: string
  /** A JSON text. */
  state: string
  full_at: number
}

export interface SpendCaps {
  owner: SpendOwner
  currency: string
  day: string | null
  month: string | null
  turns: Generated<number>
}

export interface SpendingEntries {
  owner: SpendOwner
  entry: string
  currency: string
  amount: string
  charged_at: number | null
  /** An `xid8`. */
  caller_xid: string | null
}

export interface JobLabels {
  label: string
  created_at: number
  job_id: JobId
  job_seq: number
}

export interface JobScopes {
  scope: string
  job_seq: number
}

/** A project has several rows, whose sum counts. */
export interface KeptBytesRows {
  project_id: ProjectId
  mode: JobMode
  slot: number
  uploads: number
  files: number
}
