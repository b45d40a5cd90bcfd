import {
  type JobId,
  missingPrerequisites,
  type ProjectId,
  uploadRefusal,
  type UploadRefusal,
  withForcedOff,
} from "@kiln/core/domain"
import type { CreateOutcome, NewJob } from "@kiln/core/ports"
import { jobByIdempotencyKey, jobOf } from "../JobRow.ts"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"
import { ownUpload, uploadOf } from "../UploadRow.ts"
import { ownJob } from "./eraseJobs.ts"
import { insertJob, type KnownLanes } from "./insertJob.ts"
import { loadBoard, type StoredBoard } from "./readBoard.ts"

/**
 * The claimable entries of a project's lanes are its unfinished jobs. They are counted in the
 * index that claims use, and no further than the cap.
 */
export const unfinishedJobs = statement((given: Given<{ projectId: ProjectId; cap: number }>) =>
  query
    .selectFrom((from) =>
      from
        .selectFrom("lanes")
        .innerJoin("jobs", "jobs.lane_id", "lanes.id")
        .select("jobs.lane_id")
        .where("lanes.project_id", "=", given.projectId)
        .where("jobs.claimable_at", "is not", null)
        .limit(given.cap)
        .as("unfinished"),
    )
    .select((select) => select.fn.countAll<number>().as("count")),
)

/** What a failed job consumed is free for its retry. The schema allows this one change of what it was asked for. */
const letGoOfUpload = statement((given: Given<{ seq: number }>) =>
  query.updateTable("jobs").set({ upload_id: null }).where("seq", "=", given.seq),
)

/** What the items of one batch share: read once, and kept up to date by those that come first. */
interface Batch {
  board?: StoredBoard
  readonly unfinished: Map<ProjectId, number>
  readonly cap: number
  readonly lanes: KnownLanes
}

/** The checks stand in the order of precedence. Items earlier in the batch count for later ones. */
export const createJobs = (tx: Transaction, items: ReadonlyArray<NewJob>): ReadonlyArray<CreateOutcome> => {
  const cap = items.reduce((highest, item) => Math.max(highest, item.queueCap), 0)
  const batch: Batch = { unfinished: new Map(), cap, lanes: new Map() }
  return items.map((item) => createJob(tx, batch, item))
}

const createJob = (tx: Transaction, batch: Batch, item: NewJob): CreateOutcome => {
  const { gate, idempotencyKey, keyId, projectId, retryOf, uploadId } = item
  const existing = tx.get(jobByIdempotencyKey, { keyId, idempotencyKey })
  if (existing !== undefined)
    return existing.fingerprint === item.fingerprint
      ? { _tag: "Replayed", job: jobOf(tx, existing) }
      : { _tag: "KeyReused" }

  const retried = retryOf === null ? undefined : retryable(tx, item, retryOf)
  if (retryOf !== null && retried === undefined) return { _tag: "NotRetryable" }

  const board = gate === null ? undefined : (batch.board ??= loadBoard(tx))
  const missing =
    gate === null || board === undefined ? [] : missingPrerequisites(gate, withForcedOff(board, item.forcedOff), tx.now)
  if (missing.length > 0) return { _tag: "GateClosed", missing }

  const reason = retried === undefined ? refusalOf(tx, item) : undefined
  if (reason !== undefined) return { _tag: "UploadRefused", reason }

  if (item.queueCap > 0 && unfinishedOf(tx, batch, projectId) >= item.queueCap) return { _tag: "QueueFull" }

  if (retried !== undefined && uploadId !== null) tx.run(letGoOfUpload, { seq: retried.seq })
  const job = insertJob(tx, batch.lanes, item, gate?.price == null ? undefined : board?.stored[gate.price])
  const unfinished = batch.unfinished.get(projectId)
  if (unfinished !== undefined) batch.unfinished.set(projectId, unfinished + 1)
  return { _tag: "Created", job }
}

/** The job this one is another try of. Where another retry came first, it has taken the upload this one asks for. */
const retryable = (tx: Transaction, { keyId, mode, projectId, uploadId }: NewJob, id: JobId) => {
  const job = tx.get(ownJob, { id, projectId, keyId, mode })
  return job?.status === "failed" && job.retained === "kept" && job.uploadId === uploadId ? job : undefined
}

const refusalOf = (tx: Transaction, item: NewJob): UploadRefusal | undefined => {
  const { keyId, maxTransfers, mode, projectId, uploadId: id } = item
  if (id === null) return undefined
  const row = tx.get(ownUpload, { id, projectId, keyId, mode })
  return row === undefined ? "not_found" : uploadRefusal(uploadOf(row), tx.now, maxTransfers)
}

const unfinishedOf = (tx: Transaction, batch: Batch, projectId: ProjectId): number => {
  const known = batch.unfinished.get(projectId)
  if (known !== undefined) return known
  const count = tx.get(unfinishedJobs, { projectId, cap: batch.cap })?.count ?? 0
  batch.unfinished.set(projectId, count)
  return count
}
