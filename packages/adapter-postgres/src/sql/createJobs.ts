import {
  created,
  type Job,
  type JobMode,
  type KeyId,
  missingPrerequisites,
  type ProjectId,
  type Upload,
  type UploadId,
  type UploadRefusal,
  uploadRefusal,
  withForcedOff,
} from "@kiln/core/domain"
import type { CreateOutcome, NewJob } from "@kiln/core/ports"
import { decodeObject } from "@kiln/core/ports"
import { jobOf, jobsByIdempotencyKey } from "../JobRow.ts"
import type { Session, Transaction } from "../Session.ts"
import { lockUploads, ownUploads, uploadOf } from "../UploadRow.ts"
import { type Accepted, insertJobs } from "./insertJobs.ts"
import { findLanes } from "./lanes.ts"
import { countUnfinished, oneAtATimePerProject } from "./queueCap.ts"
import { loadBoard, type StoredBoard } from "./readBoard.ts"
import { lockedRetried, type RetriedJob } from "./retriedJobs.ts"

/** What is read before anything is decided about the items of one batch. */
export interface Read {
  readonly jobs: ReadonlyArray<Job>
  readonly board: StoredBoard | undefined
  readonly uploads: ReadonlyArray<Upload>
  readonly unfinished: Map<ProjectId, number>
  readonly lanes: Map<string, number>
  /** By the place of the item that retries it. */
  readonly retried: ReadonlyMap<number, RetriedJob>
}

/** What decides: what was read, kept up to date by the items that come first. */
interface Batch {
  readonly now: number
  readonly jobs: Map<string, Job>
  readonly board: StoredBoard | undefined
  readonly uploads: Map<string, Upload>
  readonly unfinished: Map<ProjectId, number>
  readonly retried: ReadonlyMap<number, RetriedJob>
  /** Uploads that a retry of this batch took over. */
  readonly takenOver: Set<UploadId>
  readonly accepted: Array<Accepted>
}

export const keyName = ({ idempotencyKey, keyId }: Pick<NewJob, "keyId" | "idempotencyKey">) =>
  `${keyId} ${idempotencyKey}`
const uploadName = (item: { projectId: ProjectId; keyId: KeyId; mode: JobMode; id: UploadId }) =>
  [item.projectId, item.keyId, item.mode, item.id].join(" ")

/** What an item comes to whose key has a job. */
export const outcomeOfRepeat = (item: NewJob, existing: Job): CreateOutcome =>
  existing.fingerprint === item.fingerprint ? { _tag: "Replayed", job: existing } : { _tag: "KeyReused" }

/** The checks stand in the order of precedence. Items earlier in the batch count for later ones. */
export const decideJobs = (
  now: number,
  items: ReadonlyArray<NewJob>,
  { board, jobs, retried, unfinished, uploads }: Omit<Read, "lanes">,
): { readonly outcomes: ReadonlyArray<CreateOutcome>; readonly accepted: ReadonlyArray<Accepted> } => {
  const batch: Batch = {
    now,
    jobs: new Map(jobs.map((job) => [keyName(job), job])),
    board,
    uploads: new Map(uploads.map((upload) => [uploadName(upload), upload])),
    unfinished,
    retried,
    takenOver: new Set(),
    accepted: [],
  }
  return { outcomes: items.map((item, index) => decide(batch, item, index)), accepted: batch.accepted }
}

export const createJobs = async (
  tx: Transaction,
  items: ReadonlyArray<NewJob>,
  read: Read,
): Promise<ReadonlyArray<CreateOutcome>> => {
  const { accepted, outcomes } = decideJobs(tx.now, items, read)
  await insertJobs(tx, accepted, read.lanes)
  return outcomes
}

/**
 * All in one flight: in this order, since jobs that are retried and uploads are locked before anything is known of them, and keys are looked up after
 * everything that could refuse an item: of two that ask for the same at the same moment, the one that finds the upload used or
 * the queue full finds the other's job as well.
 */
export const readBatch = async (session: Session, items: ReadonlyArray<NewJob>): Promise<Read> => {
  const [read, lanes] = await Promise.all([readItems(session, items, true), findLanes(session, items)])
  return { ...read, lanes }
}

/** The same without lanes. `alone`: nobody else adds to a project that has a cap, until the transaction ends. */
export const readItems = async (
  session: Session,
  items: ReadonlyArray<NewJob>,
  alone: boolean,
): Promise<Omit<Read, "lanes">> => {
  const consumed = items.flatMap(({ keyId, mode, projectId, uploadId: id }) =>
    id === null ? [] : [{ id, projectId, keyId, mode }],
  )
  const [retried, , , unfinished, board, uploads, jobs] = await Promise.all([
    lockedRetried(session, items),
    session.batch(lockUploads, consumed, {}),
    alone && oneAtATimePerProject(session, items),
    countUnfinished(session, items),
    items.some(({ gate }) => gate !== null) ? loadBoard(session) : undefined,
    session.batch(ownUploads, consumed, {}),
    session.batch(jobsByIdempotencyKey, items, {}),
  ])
  return { jobs: jobs.map(jobOf), board, uploads: uploads.map(uploadOf), unfinished, retried }
}

const decide = (batch: Batch, item: NewJob, index: number): CreateOutcome => {
  const existing = batch.jobs.get(keyName(item))
  if (existing !== undefined) return outcomeOfRepeat(item, existing)

  const retried = item.retryOf === null ? undefined : retriedBy(batch, item, index)
  if (item.retryOf !== null && retried === undefined) return { _tag: "NotRetryable" }

  const { board } = batch
  const missing =
    item.gate === null || board === undefined
      ? []
      : missingPrerequisites(item.gate, withForcedOff(board, item.forcedOff), batch.now)
  if (missing.length > 0) return { _tag: "GateClosed", missing }

  const reason = retried === undefined ? refusalOf(batch, item) : undefined
  if (reason !== undefined) return { _tag: "UploadRefused", reason }

  const unfinished = batch.unfinished.get(item.projectId) ?? 0
  if (item.queueCap > 0 && unfinished >= item.queueCap) return { _tag: "QueueFull" }
  batch.unfinished.set(item.projectId, unfinished + 1)

  const price = item.gate?.price == null ? undefined : board?.stored[item.gate.price]
  const job = jobFrom(item, batch.now, price?.snapshot ?? null)
  batch.jobs.set(keyName(item), job)
  consume(batch, item, retried)
  batch.accepted.push({ item, job, priceId: price?.id ?? null, retried })
  return { _tag: "Created", job }
}

/** The job an item is another try of. Where another retry came first, it has taken the upload this one asks for. */
const retriedBy = ({ retried, takenOver }: Batch, { uploadId }: NewJob, index: number): RetriedJob | undefined => {
  const job = retried.get(index)
  return job?.uploadId === uploadId && (uploadId === null || !takenOver.has(uploadId)) ? job : undefined
}

const refusalOf = ({ now, uploads }: Batch, item: NewJob): UploadRefusal | undefined => {
  if (item.uploadId === null) return undefined
  const upload = uploads.get(uploadName({ ...item, id: item.uploadId }))
  return upload === undefined ? "not_found" : uploadRefusal(upload, now, item.maxTransfers)
}

/** From now on the upload is this job's, for the items that follow as well. */
const consume = ({ takenOver, uploads }: Batch, item: NewJob, retried: RetriedJob | undefined): void => {
  if (item.uploadId === null) return
  if (retried !== undefined) takenOver.add(item.uploadId)
  const name = uploadName({ ...item, id: item.uploadId })
  const upload = uploads.get(name)
  if (upload !== undefined) uploads.set(name, { ...upload, jobId: item.id })
}

const jobFrom = (item: NewJob, now: number, price: Job["price"]): Job => ({
  ...created(now, item.limits, Math.ceil(item.delayMs)),
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
  price,
  // Decoded again: the caller sees what every later reader will see.
  kept: decodeObject(JSON.stringify(item.kept), item.id),
  createdAt: now,
  retained: "kept",
  request: decodeObject(JSON.stringify(item.request), item.id),
  checkpoints: {},
  output: null,
  files: [],
  warningCode: null,
  charge: null,
})
