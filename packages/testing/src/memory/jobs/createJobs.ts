import {
  type Board,
  created,
  type Job,
  missingPrerequisites,
  type PriceSnapshot,
  type Upload,
  type UploadRefusal,
  uploadRefusal,
  withForcedOff,
} from "@kiln/core/domain"
import type { CreateOutcome, NewJob } from "@kiln/core/ports"
import { idempotencyIndex, insertJob, keep, type MemoryState, putJob, putUpload } from "../MemoryState.ts"
import { readBoard } from "../MemorySwitchboard.ts"

/** Items earlier in the batch count for later ones. */
export const createJobs = (
  state: MemoryState,
  jobs: ReadonlyArray<NewJob>,
  now: number,
): ReadonlyArray<CreateOutcome> => {
  const board = readBoard(state, now)
  return jobs.map((job) => createJob(state, job, board, now))
}

const createJob = (state: MemoryState, item: NewJob, board: Board, now: number): CreateOutcome => {
  const existing = findByIdempotencyKey(state, item.keyId, item.idempotencyKey)
  if (existing !== undefined)
    return existing.fingerprint === item.fingerprint ? { _tag: "Replayed", job: existing } : { _tag: "KeyReused" }

  const retried = item.retryOf === null ? undefined : retryable(state, item)
  if (item.retryOf !== null && retried === undefined) return { _tag: "NotRetryable" }

  const missing = item.gate === null ? [] : missingPrerequisites(item.gate, withForcedOff(board, item.forcedOff), now)
  if (missing.length > 0) return { _tag: "GateClosed", missing }

  const refusal = retried === undefined ? refusalOf(state, item, now) : undefined
  if (refusal !== undefined) return { _tag: "UploadRefused", reason: refusal }

  if (item.queueCap > 0 && (state.unfinishedByProject.get(item.projectId) ?? 0) >= item.queueCap)
    return { _tag: "QueueFull" }

  const job = newJob(item, priceOf(item, board), now)
  insertJob(state, job)
  if (retried !== undefined) putJob(state, { ...retried, uploadId: null })
  const upload = item.uploadId === null ? undefined : state.uploads.get(item.uploadId)
  if (upload !== undefined) putUpload(state, { ...upload, jobId: job.id })
  return { _tag: "Created", job }
}

const priceOf = ({ gate }: NewJob, { prices }: Board): PriceSnapshot | null =>
  gate === null || gate.price === null ? null : (prices[gate.price] ?? null)

/** Whoever may see a record. */
const isSameOwner = (record: Job | Upload, item: NewJob): boolean =>
  record.projectId === item.projectId && record.keyId === item.keyId && record.mode === item.mode

/** Also when another retry has come first and taken its upload: what this one asks for is not there any more. */
const retryable = (state: MemoryState, item: NewJob): Job | undefined => {
  const job = item.retryOf === null ? undefined : state.jobs.get(item.retryOf)
  if (job === undefined || !isSameOwner(job, item)) return undefined
  return job.status === "failed" && job.retained === "kept" && job.uploadId === item.uploadId ? job : undefined
}

/** Ids of uploads of another project, key or mode are answered exactly like unknown ones. */
const refusalOf = (state: MemoryState, item: NewJob, now: number): UploadRefusal | undefined => {
  if (item.uploadId === null) return undefined
  const upload = state.uploads.get(item.uploadId)
  if (upload === undefined || !isSameOwner(upload, item)) return "not_found"
  return uploadRefusal(upload, now, item.maxTransfers)
}

const newJob = (item: NewJob, price: PriceSnapshot | null, now: number): Job =>
  Object.freeze({
    ...created(now, item.limits, item.delayMs),
    id: item.id,
    projectId: item.projectId,
    keyId: item.keyId,
    mode: item.mode,
    kind: item.kind,
    kindVersion: item.kindVersion,
    uploadId: item.uploadId,
    priority: item.priority,
    idempotencyKey: item.idempotencyKey,
    fingerprint: item.fingerprint,
    price: price === null ? null : keep(price),
    kept: keep(item.kept),
    createdAt: now,
    retained: "kept",
    request: keep(item.request),
    checkpoints: Object.freeze({}),
    output: null,
    files: Object.freeze([]),
    warningCode: null,
    charge: null,
  })

export const findByIdempotencyKey = (
  state: MemoryState,
  keyId: NewJob["keyId"],
  idempotencyKey: string,
): Job | undefined => {
  const id = state.jobByIdempotencyKey.get(idempotencyIndex(keyId, idempotencyKey))
  return id === undefined ? undefined : state.jobs.get(id)
}
