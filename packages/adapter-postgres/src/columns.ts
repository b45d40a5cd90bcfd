import type { Generated } from "kysely"
import type {
  AudioFormat,
  ErrorCode,
  JobId,
  JobMode,
  JobStatus,
  KeyId,
  KeyMode,
  ProjectId,
  RetainedData,
  UploadId,
  WarningCode,
} from "@kiln/core/domain"
import type { Attempts, Checkpoints, Files, Waits } from "./attemptColumns.ts"
import type {
  Deliveries,
  Purges,
  RetentionRules,
  JobLabels,
  JobScopes,
  RateBuckets,
  Schedules,
  SpendCaps,
  SpendingEntries,
  KeptBytesRows,
} from "./limitColumns.ts"

/** A JSON text, kept as it was written. */
export type JsonText = string

interface Lanes {
  id: Generated<number>
  project_id: ProjectId
  kind: string
  kind_version: number
  mode: JobMode
  virtual_time: Generated<number>
  next_at: number | null
}

interface Fairness {
  id: 1
  virtual_time: number
}

/** The request of a job. The state of an unfinished one is in `queue`, the end of a finished one in `results`. */
interface Jobs {
  seq: Generated<number>
  id: JobId
  project_id: ProjectId
  key_id: KeyId
  mode: JobMode
  kind: string
  kind_version: number
  upload_id: UploadId | null
  /** A rank, see `rankOf`. */
  priority: Generated<number>
  kept: Generated<JsonText>
  idempotency_key: string
  fingerprint: string
  price_id: number | null
  created_at: number
  queue_limit_ms: number
  run_limit_ms: number
  delay_ms: Generated<number>
  request: JsonText | null
}

interface Results {
  job_seq: number
  job_id: JobId
  project_id: ProjectId
  kind: string
  mode: JobMode
  created_at: number
  status: "done" | "failed"
  token: number
  ran_ms: number
  waited_ms: number
  attempts: number
  failures: number
  lost_workers: number
  finished_at: number
  error_code: ErrorCode | null
  warning_code: WarningCode | null
  retained: Generated<RetainedData>
  charge: JsonText | null
  output: JsonText | null
}

interface Queue {
  id: JobId
  job_seq: number
  lane_id: number
  project_id: ProjectId
  kind: string
  mode: JobMode
  priority: Generated<number>
  created_at: number
  queue_limit_ms: number
  run_limit_ms: number
  status: Exclude<JobStatus, "done" | "failed">
  token: number
  held: boolean
  claimable_at: number
  deadline_at: number
  phase_started_at: number
  ran_ms: number
  waited_ms: number
  attempts: number
  failures: number
  lost_workers: number
  claim_id: Generated<number | null>
}

interface Charges {
  job_id: JobId
  project_id: ProjectId
  key_id: KeyId
  kind: string
  currency: string
  amount: string
  line_items: JsonText
  charged_at: number
}

interface ClosedLedger {
  id: Generated<1>
  closed_until: number
  complete_until: number
}

interface Uploads {
  seq: Generated<number>
  id: UploadId
  project_id: ProjectId
  key_id: KeyId
  mode: JobMode
  format: AudioFormat
  declared_seconds: number
  created_at: number
  expires_at: number
  usable_until: number
  token: number
  claimed_until: Generated<number | null>
  transfers: number
  blob_key: Generated<string | null>
  bytes: Generated<number | null>
  sha256: Generated<string | null>
  erased: Generated<boolean>
  sweep_at: number | null
  reserved_bytes: Generated<number | null>
}

interface Projects {
  seq: Generated<number>
  id: ProjectId
  name: string
  created_at: number
  disabled_at: Generated<number | null>
}

interface ApiKeys {
  seq: Generated<number>
  id: KeyId
  project_id: ProjectId
  mode: KeyMode
  scopes: JsonText
  name: string | null
  limits: Generated<JsonText | null>
  created_at: number
  expires_at: number | null
  revoked_at: Generated<number | null>
  last_used_at: Generated<number | null>
}

interface KeySecrets {
  secret_hash: string
  key_id: KeyId
  created_at: number
  valid_until: Generated<number | null>
}

/** `key`, `bytes` and `sha256` are null while it is being written. */
interface Blobs {
  id: Generated<number>
  key: string | null
  bytes: number | null
  sha256: string | null
  begun_at: number
}

interface BlobChunks {
  blob_id: number
  position: number
  content: Uint8Array
}

interface Secrets {
  name: string
  value: Uint8Array
}

interface Audit {
  number: Generated<number>
  at: number
  actor: string
  origin: string
  action: string
  subject: string | null
  details: JsonText
}

interface Switches {
  name: string
  enabled: boolean
}

/** The version of switches and prices, which triggers write. Has no row until something was set. */
interface BoardVersion {
  id: 1
  version: string
}

interface PausedKinds {
  kind: string
}

interface ProjectLimits {
  project_id: ProjectId
  concurrency: number
}

interface Prices {
  id: Generated<number>
  name: string
  version: number
  currency: string
  unit_amounts: JsonText
  active: boolean
  created_at: number
}

interface Workers {
  worker_id: string
  live_kinds: JsonText
  live_until: number
  providers: JsonText
  scope: JsonText | null
}

interface BlobLineage {
  id: 1
  version: number
  document: JsonText
}

interface ServedKinds {
  kind: string
  served_at: number
}

/** The schema as the migrations leave it. The ledger, `charges`, is written by a trigger. */
export interface Tables {
  blobs: Blobs
  blob_chunks: BlobChunks
  lanes: Lanes
  fairness: Fairness
  jobs: Jobs
  results: Results
  queue: Queue
  job_labels: JobLabels
  job_scopes: JobScopes
  checkpoints: Checkpoints
  attempts: Attempts
  waits: Waits
  files: Files
  charges: Charges
  closed_ledger: ClosedLedger
  purges: Purges
  retention_rules: RetentionRules
  uploads: Uploads
  kept_bytes: KeptBytesRows
  projects: Projects
  api_keys: ApiKeys
  key_secrets: KeySecrets
  secrets: Secrets
  audit: Audit
  switches: Switches
  board_version: BoardVersion
  paused_kinds: PausedKinds
  project_limits: ProjectLimits
  prices: Prices
  workers: Workers
  blob_lineage: BlobLineage
  served_kinds: ServedKinds
  schedules: Schedules
  deliveries: Deliveries
  rate_buckets: RateBuckets
  spend_caps: SpendCaps
  spending: SpendingEntries
}
