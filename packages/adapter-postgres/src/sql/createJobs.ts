import {
  created,
  type Job,
  type JobMode,
  type KeyId,
  missingPrerequisites,
  type ProjectId,
  type Upload,
  type UploadId,
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
import { countUnfinished } from "./queueCap.ts"
import { loadBoard, type StoredBoard } from "./readBoard.ts"

/** What is read before anything is decided about the items of one batch. */
export interface Read {
  readonly jobs: ReadonlyArray<Job>
  readonly board: StoredBoard | undefined
  readonly uploads: ReadonlyArray<Upload>
  readonly unfinished: Map<ProjectId, number>
  readonly lanes: Map<string, number>
}

/** What decides: what was read, kept up to date by the items that come first. */
interface Batch {
  readonly now: number
  readonly jobs: Map<string, Job>
  readonly board: StoredBoard | undefined
  readonly uploads: Map<string, Upload>
  readonly unfinished: Map<ProjectId, number>
  readonly accepted: Array<Accepted>
}

const keyName = ({ idempotencyKey, keyId }: Pick<NewJob, "keyId" | "idempotencyKey">) => `${keyId} ${idempotencyKey}`
const uploadName = (item: { projectId: ProjectId; keyId: KeyId; mode: JobMode; id: UploadId }) =>
  [item.projectId, item.keyId, item.mode, item.id].join(" ")

/** The checks stand in the order of precedence. Items earlier in the batch count for later ones. */
export const createJobs = async (
  tx: Transaction,
  items: ReadonlyArray<NewJob>,
  { board, jobs, lanes, unfinished, uploads }: Read,
): Promise<ReadonlyArray<CreateOutcome>> => {
  const batch: Batch = {
    now: tx.now,
    jobs: new Map(jobs.map((job) => [keyName(job), job])),
    board,
    uploads: new Map(uploads.map((upload) => [uploadName(upload), upload])),
    unfinished,
    accepted: [],
  }
  const outcomes = items.map((item) => decide(batch, item))
  await insertJobs(tx, batch.accepted, lanes)
  return outcomes
}

/**
 * All in one flight: in this order, since uploads are locked before anything is known of them, and keys are looked up after
 * everything that could refuse an item: of two that ask for the same at the same moment, the one that finds the upload used or
 * the queue full finds the other's job as well.
 */
export const readBatch = async (session: Session, items: ReadonlyArray<NewJob>): Promise<Read> => {
  const consumed = items.flatMap(({ keyId, mode, projectId, uploadId: id }) =>
    id === null ? [] : [{ id, projectId, keyId, mode }],
  )
  const [, unfinished, board, uploads, lanes, jobs] = await Promise.all([
    session.batch(lockUploads, consumed, {}),
    countUnfinished(session, items),
    items.some(({ gate }) => gate !== null) ? loadBoard(session) : undefined,
    session.batch(ownUploads, consumed, {}),
    findLanes(session, items),
    session.batch(jobsByIdempotencyKey, items, {}),
  ])
  return { jobs: jobs.map(jobOf), board, uploads: uploads.map(uploadOf), unfinished, lanes }
}

const decide = (batch: Batch, item: NewJob): CreateOutcome => {
  const existing = batch.jobs.get(keyName(item))
  if (existing !== undefined)
    return existing.fingerprint === item.fingerprint ? { _tag: "Replayed", job: existing } : { _tag: "KeyReused" }

  const { board } = batch
  const missing =
    item.gate === null || board === undefined
      ? []
      : missingPrerequisites(item.gate, withForcedOff(board, item.forcedOff))
  if (missing.length > 0) return { _tag: "GateClosed", missing }

  const name = item.uploadId === null ? undefined : uploadName({ ...item, id: item.uploadId })
  if (name !== undefined) {
    const upload = batch.uploads.get(name)
    const reason = upload === undefined ? "not_found" : uploadRefusal(upload, batch.now, item.maxTransfers)
    if (reason !== undefined) return { _tag: "UploadRefused", reason }
    if (upload !== undefined) batch.uploads.set(name, { ...upload, jobId: item.id })
  }

  const unfinished = batch.unfinished.get(item.projectId) ?? 0
  if (item.queueCap > 0 && unfinished >= item.queueCap) {
    const upload = name === undefined ? undefined : batch.uploads.get(name)
    if (name !== undefined && upload !== undefined) batch.uploads.set(name, { ...upload, jobId: null })
    return { _tag: "QueueFull" }
  }
  batch.unfinished.set(item.projectId, unfinished + 1)

  const price = item.gate === null ? undefined : board?.stored[item.gate.price]
  const job = jobFrom(item, batch.now, price?.snapshot ?? null)
  batch.jobs.set(keyName(item), job)
  batch.accepted.push({ item, job, priceId: price?.id ?? null })
  return { _tag: "Created", job }
}

const jobFrom = (item: NewJob, now: number, price: Job["price"]): Job => ({
  ...created(now, item.limits),
  id: item.id,
  projectId: item.projectId,
  keyId: item.keyId,
  mode: item.mode,
  kind: item.kind,
  kindVersion: item.kindVersion,
  uploadId: item.uploadId,
  idempotencyKey: item.idempotencyKey,
  fingerprint: item.fingerprint,
  price,
  createdAt: now,
  retained: "kept",
  // Decoded again: the caller sees what every later reader will see.
  request: decodeObject(JSON.stringify(item.request), item.id),
  checkpoints: {},
  output: null,
  files: [],
  warningCode: null,
  charge: null,
})
