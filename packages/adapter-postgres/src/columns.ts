import {
  bytes,
  columns as common,
  endColumns,
  progressColumns,
  fieldsIn,
  flag,
  generated,
  integer,
  nullable,
  selectOf,
  type TablesOf,
  text,
} from "@kiln/sql-store"
import type { JobId, JobMode, JobStatus, ProjectId } from "@kiln/core/domain"

/**
 * Every column of the schema: those that both databases have, and those of this one. A test compares them with the migrated schema.
 * The ledger, `charges`, is written by a trigger.
 */
export const columns = {
  ...common,
  /** The request of a job. The state of an unfinished one is in `queue`, the end of a finished one in `results`. */
  jobs: {
    ...common.jobs,
    delay_ms: generated(integer()),
  },
  fairness: { ...common.fairness, id: integer<1>() },
  results: {
    job_seq: integer(),
    job_id: text<JobId>(),
    project_id: text<ProjectId>(),
    kind: text(),
    mode: text<JobMode>(),
    created_at: integer(),
    status: text<"done" | "failed">(),
    ...progressColumns,
    finished_at: integer(),
    ...endColumns,
  },
  queue: {
    id: text<JobId>(),
    job_seq: integer(),
    lane_id: integer(),
    project_id: text<ProjectId>(),
    kind: text(),
    mode: text<JobMode>(),
    priority: integer(),
    created_at: integer(),
    queue_limit_ms: integer(),
    run_limit_ms: integer(),
    status: text<Exclude<JobStatus, "done" | "failed">>(),
    ...progressColumns,
    held: flag(),
    claimable_at: integer(),
    deadline_at: integer(),
    phase_started_at: integer(),
    claim_id: nullable(integer()),
  },
  due_signals: { job_seq: integer() },
  job_labels: { ...common.job_labels, created_at: integer(), job_id: text<JobId>() },
  checkpoints: { job_id: text<JobId>(), ...common.checkpoints },
  closed_ledger: {
    id: generated(integer<1>()),
    closed_until: generated(integer()),
    complete_until: generated(integer()),
  },
  /** A project has several rows, whose sum counts. */
  kept_bytes: { ...common.kept_bytes, slot: integer() },
  spend_caps: {
    ...common.spend_caps,
    turns: generated(integer()),
    day_bound: nullable(text()),
    month_bound: nullable(text()),
  },
  /** `caller_xid` is an `xid8`. */
  spending: { ...common.spending, caller_xid: nullable(text()), in_bound: generated(flag()) },
  /** `key`, `bytes` and `sha256` are null while it is being written. */
  blobs: {
    id: generated(integer()),
    key: nullable(text()),
    bytes: nullable(integer()),
    sha256: nullable(text()),
    begun_at: integer(),
  },
  blob_chunks: { blob_id: integer(), position: integer(), content: bytes() },
  /** The version of switches and prices, which triggers write. Has no row until something was set. */
  board_version: { id: integer<1>(), version: text() },
} as const

export const fieldsFrom = fieldsIn(columns)
export const select = selectOf<typeof columns>()

/** The schema as Kysely sees it. */
export type Tables = TablesOf<typeof columns, boolean>

export type { JsonText } from "@kiln/sql-store"
