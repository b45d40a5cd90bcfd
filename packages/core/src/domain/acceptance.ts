import { type Board, type Gate, missingPrerequisites, type SwitchName, withForcedOff } from "./Gate.ts"
import type { JobMode } from "./Access.ts"
import type { PriceSnapshot } from "./Billing.ts"
import type { JobId, KeyId, ProjectId, UploadId } from "./Ids.ts"
import type { Job } from "./Job.ts"
import type { JobLimits } from "./JobState.ts"
import { created } from "./JobTransition.ts"
import type { JsonObject } from "./Json.ts"
import type { Priority } from "./Priority.ts"
import { type Upload, type UploadRefusal, uploadRefusal } from "./Upload.ts"

/** A job to be accepted. */
export interface NewJob {
  readonly id: JobId
  readonly projectId: ProjectId
  readonly keyId: KeyId
  readonly mode: JobMode
  readonly kind: string
  /** The version of the kind the request was made for, at least 1. */
  readonly kindVersion: number
  readonly request: JsonObject
  readonly priority: Priority
  /** Milliseconds before which it is not claimed; 0 begins at once. Its queue limit counts from then on. */
  readonly delayMs: number
  /** Fields of the request that stay when its data is erased. */
  readonly kept: JsonObject
  /**
   * The failed job to try again; `null` for all others. It must belong to the same key, have failed and still have its data. The
   * new job takes over its upload in the same transaction, so `uploadId` must be the failed job's.
   */
  readonly retryOf: JobId | null
  /** Consumed by this job in the same transaction. */
  readonly uploadId: UploadId | null
  /** Transfers an upload allows: after the last one failed, nothing can arrive any more. */
  readonly maxTransfers: number
  readonly idempotencyKey: string
  readonly fingerprint: string
  /** `null` for sandbox jobs, which need no prerequisites and cost nothing. */
  readonly gate: Gate | null
  /** Switches this process's environment forces off. */
  readonly forcedOff: ReadonlyArray<SwitchName>
  readonly limits: JobLimits
  /** Unfinished jobs its project may have, this one included; 0 is no cap. */
  readonly queueCap: number
}

/** What became of one item of `createJobs`, in the order of precedence. */
export type CreateOutcome =
  /** The key's job already exists and asked for the same: this is it. */
  | { readonly _tag: "Replayed"; readonly job: Job }
  /** The key belongs to a job that asked for something else. */
  | { readonly _tag: "KeyReused" }
  /** No failed job of this owner has that id and still has its data and its upload. */
  | { readonly _tag: "NotRetryable" }
  | { readonly _tag: "GateClosed"; readonly missing: ReadonlyArray<string> }
  | { readonly _tag: "UploadRefused"; readonly reason: UploadRefusal }
  | { readonly _tag: "QueueFull" }
  | { readonly _tag: "Created"; readonly job: Job }

/**
 * What a store knows about one new job, all of it as of one moment of its transaction. Facts are functions so that a store that
 * reads them one at a time reads only those the outcome depends on. Records of another project, key or mode count as absent.
 */
export interface JobFacts {
  /** Store time, Unix milliseconds. */
  readonly now: number
  /** The job that the key has bound to the idempotency key. */
  readonly existing: () => Job | undefined
  /** The job that `retryOf` names. Asked only when there is a `retryOf`. */
  readonly retried: () => Pick<Job, "status" | "retained" | "uploadId"> | undefined
  /** Asked only when there is a gate. */
  readonly board: () => Board
  /** The upload that `uploadId` names. Asked only when there is an `uploadId` and no `retryOf`. */
  readonly upload: () => Upload | undefined
  /** Unfinished jobs of the project; any number from the cap on may stand for more. Asked only when there is a cap. */
  readonly unfinished: () => number
}

/**
 * Decides about a new job. The checks run in this order, and the first that fails decides: idempotency key, job to retry, gate
 * (prices, switches, provider), upload, queue cap. `Created` carries the job as the store must write it. A retry brings its
 * upload along, so that upload is not checked again.
 */
export const judgeJob = (job: NewJob, facts: JobFacts): CreateOutcome => {
  const existing = facts.existing()
  if (existing !== undefined) return repeatOf(existing, job)
  if (job.retryOf !== null && !isRetryable(facts.retried(), job)) return { _tag: "NotRetryable" }
  const missing =
    job.gate === null ? [] : missingPrerequisites(job.gate, withForcedOff(facts.board(), job.forcedOff), facts.now)
  if (missing.length > 0) return { _tag: "GateClosed", missing }
  const reason = job.retryOf === null ? refusalOf(job, facts) : undefined
  if (reason !== undefined) return { _tag: "UploadRefused", reason }
  if (job.queueCap > 0 && facts.unfinished() >= job.queueCap) return { _tag: "QueueFull" }
  return { _tag: "Created", job: newJob(job, priceOf(job, facts), facts.now) }
}

/** Returns the outcome for a request whose idempotency key is bound to `existing`. */
export const repeatOf = (existing: Job, { fingerprint }: Pick<NewJob, "fingerprint">): CreateOutcome =>
  existing.fingerprint === fingerprint ? { _tag: "Replayed", job: existing } : { _tag: "KeyReused" }

/** A retry that came first has taken over the upload, which is then no longer the failed job's. */
const isRetryable = (failed: ReturnType<JobFacts["retried"]>, { uploadId }: NewJob): boolean =>
  failed?.status === "failed" && failed.retained === "kept" && failed.uploadId === uploadId

const refusalOf = ({ maxTransfers, uploadId }: NewJob, facts: JobFacts): UploadRefusal | undefined => {
  if (uploadId === null) return undefined
  const upload = facts.upload()
  return upload === undefined ? "not_found" : uploadRefusal(upload, facts.now, maxTransfers)
}

const priceOf = ({ gate }: NewJob, { board }: JobFacts): PriceSnapshot | null =>
  gate === null || gate.price === null ? null : (board().prices[gate.price] ?? null)

const newJob = (job: NewJob, price: PriceSnapshot | null, now: number): Job => ({
  ...created(now, job.limits, Math.ceil(job.delayMs)),
  id: job.id,
  projectId: job.projectId,
  keyId: job.keyId,
  mode: job.mode,
  kind: job.kind,
  kindVersion: job.kindVersion,
  uploadId: job.uploadId,
  priority: job.priority,
  idempotencyKey: job.idempotencyKey,
  fingerprint: job.fingerprint,
  price,
  kept: job.kept,
  createdAt: now,
  retained: "kept",
  request: job.request,
  checkpoints: {},
  output: null,
  files: [],
  warningCode: null,
  charge: null,
})
