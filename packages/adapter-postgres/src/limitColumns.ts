import type { Generated } from "kysely"
import type { JobId, JobMode, ProjectId, SpendOwner } from "@kiln/core/domain"

/** Columns of limits, schedules, labels and deliveries. */

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
