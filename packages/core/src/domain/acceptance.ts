import type { PriceSnapshot, Usage } from "./Billing.ts"
import { isUploadFault } from "./ErrorCode.ts"
import { type Board, type Gate, missingPrerequisites, withForcedOff } from "./Gate.ts"
import { type JsonObject, valueOf } from "./givenValues.ts"
import type { JobId, ProjectId, UploadId } from "./Ids.ts"
import { failedOutput, type Job, type JobOrigin } from "./Job.ts"
import { type Unique, withPrerequisitesOf } from "./JobMetadata.ts"
import { isFinished, isOverdue, type JobLimits, type JobState } from "./JobState.ts"
import { applyEvent } from "./JobTransition.ts"
import type { Schedule } from "./Schedule.ts"
import { maximumCost, type Spending, type SpendRefusal, spendRefusal, spendRefusalReason } from "./SpendCap.ts"
import { type KeptBytes, type Upload, type UploadRefusal, uploadRefusal } from "./Upload.ts"

/** A tick to get a job, and its schedule. */
export interface JobTick {
  readonly name: string
  /** The version of the schedule that was read. */
  readonly version: number
  /** Store time, Unix milliseconds. */
  readonly tick: number
  /** The schedule as it is to be written, except for the job. */
  readonly schedule: Schedule
  /** The tick after this one; `null` without one. */
  readonly nextAt: number | null
  /** True for a job outside of the ticks: these stay as they are. */
  readonly isManual?: boolean | undefined
}

/**
 * Returns what to write in the transaction that decides about the job of a tick; `undefined` if the tick still has no job. A key that
 * is bound to another request means that the tick has a job from before the schedule was changed.
 */
export const advanceAfter = (
  { isManual, nextAt, schedule, tick }: JobTick,
  outcome: { readonly _tag: string; readonly job?: { readonly id: JobId } },
): { readonly nextAt: number | null; readonly document: string } | undefined => {
  const { _tag, job } = outcome
  if (_tag !== "Created" && _tag !== "Replayed" && _tag !== "KeyReused") return undefined
  if (isManual === true) {
    if (_tag !== "Created" || job === undefined) return undefined
    return { nextAt, document: JSON.stringify({ ...schedule, manual: { at: tick, jobId: job.id } } satisfies Schedule) }
  }
  const last = job === undefined ? schedule.last : { tick, jobId: job.id }
  const { waits: _, ...rest } = schedule
  return { nextAt, document: JSON.stringify({ ...rest, last, refusal: null } satisfies Schedule) }
}

/** A job to be accepted. */
export interface NewJob extends Pick<
  JobOrigin,
  | "id"
  | "projectId"
  | "keyId"
  | "mode"
  | "kind"
  | "kindVersion"
  | "priority"
  | "metadata"
  | "idempotencyKey"
  | "fingerprint"
> {
  /** The tick of a schedule that this job is for. The schedule advances in the same transaction, or there is no job. */
  readonly tick?: JobTick | undefined
  readonly request: JsonObject
  /** Milliseconds until the job can be claimed; 0 means immediately. The queue limit counts from the end of the delay. */
  readonly delayMs: number
  /**
   * The failed job to retry; `null` for a job that is not a retry. It must belong to the same key, have failed and still have its
   * data. The new job takes over its upload in the same transaction, so `uploadId` must be the failed job's.
   */
  readonly retryOf: JobId | null
  /** A retry has the scope of the failed job. Without one, it takes over the scope of the failed job where that still has it. */
  readonly unique?: Unique | undefined
  /** Consumed by this job in the same transaction. */
  readonly uploadId: UploadId | null
  /** Number of transfers an upload allows: once the last has failed, its file can no longer arrive. */
  readonly maxTransfers: number
  /** `null` for sandbox jobs, which need no prerequisites and cost nothing. */
  readonly gate: Gate | null
  /** The most that the job can use, by meter; `null` if that is unknown. Decides only under a spend cap. */
  readonly maxUsage: Usage | null
  /** Switches that this process's environment forces off. */
  readonly forcedOff: ReadonlyArray<string>
  readonly limits: JobLimits
  /** Maximum number of unfinished jobs of the project, including this one; 0 means no cap. */
  readonly queueCap: number
  /** Maximum bytes that the project keeps in this mode when a job is accepted that writes files; no cap by default. */
  readonly storageCap?: number | undefined
}

/** The outcome of one item of `createJobs`, in order of precedence. */
export type CreateOutcome =
  /** The schedule no longer has the version that was read: its tick has a job already, or it was changed. */
  | { readonly _tag: "TickTaken" }
  /** The idempotency key belongs to this job, whose request is the same. */
  | { readonly _tag: "Replayed"; readonly job: Job }
  /** The idempotency key belongs to this job, whose request is different. */
  | { readonly _tag: "KeyReused"; readonly job: Job }
  /** This job has the scope. The idempotency key is not bound. */
  | { readonly _tag: "Duplicate"; readonly job: Job }
  /** This owner has no failed job with that id that still has its data and its upload. */
  | { readonly _tag: "NotRetryable" }
  | { readonly _tag: "GateClosed"; readonly missing: ReadonlyArray<string> }
  | { readonly _tag: "UploadRefused"; readonly reason: UploadRefusal }
  /** The job could pass a spend cap of its key or project. */
  | { readonly _tag: "SpendCapReached"; readonly refusal: SpendRefusal }
  /** The project keeps as many bytes as it may, and the job would add files. */
  | { readonly _tag: "StorageFull"; readonly capBytes: number; readonly kept: KeptBytes }
  | { readonly _tag: "QueueFull"; readonly projectId: ProjectId; readonly limit: number }
  | { readonly _tag: "Created"; readonly job: Job }
  /** The job that had the scope waited. It keeps its id, and has this request and this idempotency key from now on. */
  | { readonly _tag: "Replaced"; readonly job: Job }

/** The job that an idempotency key is bound to. */
export interface BoundKey {
  readonly job: Job
  /** That of the request that bound the key. The job has another one if its request was replaced since. */
  readonly fingerprint: string
}

/**
 * The facts on which the outcome for one new job depends, all read at one moment of the store's transaction. They are functions,
 * so a store that reads them one at a time reads only the ones it needs. Records of another project, key or mode count as absent.
 */
export interface JobFacts {
  /** Store time, Unix milliseconds. */
  readonly now: number
  /** The version of the schedule that `tick` names; `undefined` if it does not exist. Called only if there is a `tick`. */
  readonly scheduleVersion: () => number | undefined
  /** The job that the idempotency key is bound to, if any. */
  readonly existing: () => BoundKey | undefined
  /** The job that took the scope of `unique` last, if its record still exists. Called only if there is a `unique`. */
  readonly scopeHolder: () => Job | undefined
  /** The job that `retryOf` names. Called only if there is a `retryOf`. */
  readonly retried: () => Pick<Job, "status" | "errorCode" | "retained" | "uploadId"> | undefined
  /** Called only if there is a gate. */
  readonly board: () => Board
  /** The upload that `uploadId` names. Called only if there is an `uploadId` and no `retryOf`. */
  readonly upload: () => Upload | undefined
  /**
   * The caps of the job's key and project, with what counts against them. Called only if the job has a price. No other
   * transaction may accept a job under these caps until this one ends. Without what `replaced` reserves, whose request is replaced.
   */
  readonly spending: (replaced: JobId | undefined) => ReadonlyArray<Spending>
  /** The bytes that the project keeps in the job's mode. Called only if there is a cap of them. */
  readonly kept: () => KeptBytes
  /** Number of unfinished jobs of the project; counting may stop at the cap. Called only if there is a cap. */
  readonly unfinished: () => number
}

/**
 * Decides about a new job. The checks run in this order, and the first failure decides: tick, idempotency key, scope, job to retry, gate
 * (prices, switches, provider), upload, spend caps, kept bytes, queue cap. `Created` carries the job as the store must write it. A retry brings its
 * upload along, so that upload is not checked again.
 *
 * A request that replaces another is judged like a new one, except that it adds no job: the last two caps do not apply, and what the
 * job had before (its upload, its reservation) counts as free.
 */
export const judgeJob = (job: NewJob, facts: JobFacts): CreateOutcome => {
  if (job.tick !== undefined && facts.scheduleVersion() !== job.tick.version) return { _tag: "TickTaken" }
  const existing = facts.existing()
  if (existing !== undefined) return repeatOf(existing, job)
  const last = job.unique === undefined ? undefined : facts.scopeHolder()
  const replaced = last !== undefined && keepsScope(last, job, facts.now) ? last : undefined
  if (replaced !== undefined && !isReplaced(replaced, job, facts.now)) return { _tag: "Duplicate", job: replaced }
  if (job.retryOf !== null && !isRetryable(facts.retried(), job)) return { _tag: "NotRetryable" }
  const missing =
    job.gate === null ? [] : missingPrerequisites(job.gate, withForcedOff(facts.board(), job.forcedOff), facts.now)
  if (missing.length > 0) return { _tag: "GateClosed", missing }
  const reason = job.retryOf === null ? refusalOf(job, facts, replaced) : undefined
  if (reason !== undefined) return { _tag: "UploadRefused", reason }
  const price = priceOf(job, facts)
  const refusal = price === null ? undefined : overspending(job, price, facts, replaced)
  if (refusal !== undefined) return { _tag: "SpendCapReached", refusal }
  if (replaced !== undefined) return { _tag: "Replaced", job: replacedJob(replaced, job, price, facts.now) }
  const full = storageFull(job, facts)
  if (full !== undefined) return full
  if (job.queueCap > 0 && facts.unfinished() >= job.queueCap)
    return { _tag: "QueueFull", projectId: job.projectId, limit: job.queueCap }
  return { _tag: "Created", job: newJob(job, price, facts.now) }
}

/** Returns whether a project that keeps this much is below its cap. */
export const hasRoom = ({ files, uploads }: KeptBytes, capBytes: number): boolean => uploads + files < capBytes

const storageFull = ({ storageCap: capBytes = 0 }: NewJob, facts: JobFacts): CreateOutcome | undefined => {
  if (capBytes === 0) return undefined
  const kept = facts.kept()
  return hasRoom(kept, capBytes) ? undefined : { _tag: "StorageFull", capBytes, kept }
}

/** Returns what a job costs at most at its price; `undefined` if that is unknown. */
export const maximumCostOf = ({ gate, maxUsage }: NewJob, price: PriceSnapshot): string | undefined =>
  maximumCost(price, gate?.meters ?? [], maxUsage)

const overspending = (
  job: NewJob,
  price: PriceSnapshot,
  facts: JobFacts,
  replaced: Job | undefined,
): SpendRefusal | undefined => {
  const spending = facts.spending(replaced?.id)
  if (spending.length === 0) return undefined
  return spendRefusal({ currency: price.currency, maximumCost: maximumCostOf(job, price) }, spending, facts.now)
}

/** A job that a completion creates and that `judgeJob` refuses. */
export interface RefusedJob {
  /** The job to create in its place: the same without a price, so that nothing refuses it. The event `refused` ends it in the same step. */
  readonly item: NewJob
  /** What the failed job tells its caller. */
  readonly output: JsonObject
}

/**
 * Returns how to create a job that a completion brings along, after `createJobs` has answered for it; `undefined` if it exists by then. A
 * refusal must neither undo a completion whose provider was paid, nor pass a spend cap, nor leave the completion without its job, so the
 * job exists as failed.
 */
export const refusedJob = (item: NewJob, outcome: CreateOutcome): RefusedJob | undefined => {
  const reason = reasonOf(outcome)
  return reason === undefined
    ? undefined
    : { item: { ...item, gate: null, maxUsage: null }, output: failedOutput(reason) }
}

const reasonOf = (outcome: CreateOutcome): string | undefined => {
  switch (outcome._tag) {
    case "Created":
    case "Replayed":
    case "KeyReused":
      return undefined
    case "GateClosed":
      return `live jobs of this kind are not active; missing: ${outcome.missing.join(", ")}`
    case "SpendCapReached":
      return spendRefusalReason(outcome.refusal)
    case "TickTaken":
    case "Duplicate":
    case "Replaced":
    case "NotRetryable":
    case "UploadRefused":
    case "StorageFull":
    case "QueueFull":
      throw new TypeError(`createJobs returned ${outcome._tag} for a follow-up, which must not depend on that`)
  }
}

/** Returns the outcome for a request whose idempotency key is bound already. */
export const repeatOf = (bound: BoundKey, { fingerprint }: Pick<NewJob, "fingerprint">): CreateOutcome => ({
  _tag: bound.fingerprint === fingerprint ? "Replayed" : "KeyReused",
  job: bound.job,
})

/**
 * Whether a job still has the scope it took. A status never goes back, so a scope that was lost stays lost. A retry takes it from the
 * job that it retries. A job that never begins, because it is out of time and the next sweep fails it, does not wait for its first attempt.
 */
const keepsScope = (last: Job, { retryOf, unique }: NewJob, now: number): boolean => {
  if (unique === undefined || last.id === retryOf) return false
  if (typeof unique.while === "number") return now < last.createdAt + unique.while
  return unique.while === "queued" ? last.status === "queued" && !isOverdue(last, now) : !isFinished(last)
}

/** Whether the job that has the scope gets the request of the new one. A retry is a job of its own. */
const isReplaced = (last: Job, { retryOf, unique }: NewJob, now: number): boolean =>
  unique?.replaces === true && retryOf === null && last.status === "queued" && !isOverdue(last, now)

/** If another retry came first, it has taken over the upload, and the failed job no longer has it. */
const isRetryable = (failed: ReturnType<JobFacts["retried"]>, { uploadId }: NewJob): boolean =>
  failed?.status === "failed" &&
  failed.retained === "kept" &&
  failed.uploadId === uploadId &&
  // The upload was erased with the failure.
  (uploadId === null || !isUploadFault(failed.errorCode))

const refusalOf = (
  { maxTransfers, uploadId }: NewJob,
  facts: JobFacts,
  replaced: Job | undefined,
): UploadRefusal | undefined => {
  if (uploadId === null) return undefined
  const upload = facts.upload()
  if (upload === undefined) return "not_found"
  const isReleased = replaced !== undefined && upload.jobId === replaced.id
  return uploadRefusal(isReleased ? { ...upload, jobId: null } : upload, facts.now, maxTransfers)
}

const priceOf = ({ gate }: NewJob, { board }: JobFacts): PriceSnapshot | null =>
  gate === null || gate.price === null ? null : (valueOf(board().prices, gate.price) ?? null)

/** Returns the state of a new job. A delayed job starts to wait when the delay ends. */
export const created = (now: number, limits: JobLimits, delayMs = 0): JobState => ({
  queueLimitMs: limits.queueLimitMs,
  runLimitMs: limits.runLimitMs,
  status: "queued",
  token: 0,
  held: false,
  claimableAt: now + delayMs,
  deadlineAt: now + delayMs + limits.queueLimitMs,
  phaseStartedAt: now + delayMs,
  ranMs: 0,
  waitedMs: 0,
  attempts: 0,
  failures: 0,
  lostWorkers: 0,
  errorCode: null,
  finishedAt: null,
})

/** Each field by its name: an object that begins with a spread one grows field by field, which took three kilobytes a job. */
const newJob = (job: NewJob, price: PriceSnapshot | null, now: number): Job => {
  const state = created(now, job.limits, Math.ceil(job.delayMs))
  return {
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
    metadata: job.metadata,
    createdAt: now,
    queueLimitMs: state.queueLimitMs,
    runLimitMs: state.runLimitMs,
    status: state.status,
    token: state.token,
    held: state.held,
    claimableAt: state.claimableAt,
    deadlineAt: state.deadlineAt,
    phaseStartedAt: state.phaseStartedAt,
    ranMs: state.ranMs,
    waitedMs: state.waitedMs,
    attempts: state.attempts,
    failures: state.failures,
    lostWorkers: state.lostWorkers,
    errorCode: state.errorCode,
    finishedAt: state.finishedAt,
    retained: "kept",
    request: job.request,
    checkpoints: {},
    output: null,
    files: [],
    warningCode: null,
    charge: null,
  }
}

/** The part of a job that comes with its request. The rest of its origin follows from its owner and its scope. */
const requestedOf = (
  { fingerprint, idempotencyKey, kindVersion, metadata, priority, request, uploadId }: NewJob,
  price: PriceSnapshot | null,
) => ({ fingerprint, idempotencyKey, kindVersion, metadata, price, priority, request, uploadId })

/**
 * Returns a waiting job with another request. It keeps its prerequisites, because the submission that replaces it cannot name any. Its
 * place in the line stays if it can be claimed and still is to be, as with a rescheduling. Store time may be read before the job's
 * transaction, so it may be before the creation.
 */
const replacedJob = (replaced: Job, job: NewJob, price: PriceSnapshot | null, now: number): Job => {
  const { claimableAt, createdAt, id } = replaced
  const isReady = job.delayMs === 0 && claimableAt !== null && claimableAt <= now
  const at = isReady ? claimableAt : Math.max(now, createdAt) + Math.ceil(job.delayMs)
  const state = applyEvent(replaced, { event: "replaced", limits: job.limits, at }, now)
  if (state === undefined) throw new TypeError(`${id} cannot get another request`)
  const metadata = withPrerequisitesOf(job.metadata, replaced)
  return { ...replaced, ...state, ...requestedOf({ ...job, metadata }, price) }
}
