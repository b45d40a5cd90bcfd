import {
  created,
  type Job,
  type JobId,
  type JobMode,
  type KeyId,
  missingPrerequisites,
  type ProjectId,
  type UploadId,
  uploadRefusal,
  withForcedOff,
} from "@kiln/core/domain"
import type { CreateOutcome, NewJob } from "@kiln/core/ports"
import { decodeObject } from "@kiln/core/ports"
import { jobByIdempotencyKey, jobOf } from "../JobRow.ts"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"
import { ownUpload, uploadOf } from "../UploadRow.ts"
import { laneOf, mayBeClaimableAt } from "./lanes.ts"
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

const insertJob = statement(
  (
    given: Given<{
      id: JobId
      laneId: number
      projectId: ProjectId
      keyId: KeyId
      mode: JobMode
      kind: string
      kindVersion: number
      uploadId: UploadId | null
      idempotencyKey: string
      fingerprint: string
      priceId: number | null
      now: number
      queueLimitMs: number
      runLimitMs: number
      deadlineAt: number
    }>,
  ) =>
    query
      .insertInto("jobs")
      .values({
        id: given.id,
        lane_id: given.laneId,
        project_id: given.projectId,
        key_id: given.keyId,
        mode: given.mode,
        kind: given.kind,
        kind_version: given.kindVersion,
        upload_id: given.uploadId,
        idempotency_key: given.idempotencyKey,
        fingerprint: given.fingerprint,
        price_id: given.priceId,
        created_at: given.now,
        queue_limit_ms: given.queueLimitMs,
        run_limit_ms: given.runLimitMs,
        status: "queued",
        token: 0,
        held: 0,
        claimable_at: given.now,
        deadline_at: given.deadlineAt,
        phase_started_at: given.now,
        ran_ms: 0,
        waited_ms: 0,
        attempts: 0,
        failures: 0,
        lost_workers: 0,
      })
      .returning("seq"),
)

const insertData = statement((given: Given<{ seq: number; request: string }>) =>
  query.insertInto("job_data").values({ job_seq: given.seq, request: given.request }),
)

/** The insertion consumed the upload; this takes it out of the sweep's way. */
const leaveSweep = statement((given: Given<{ uploadId: UploadId }>) =>
  query.updateTable("uploads").set({ sweep_at: null }).where("id", "=", given.uploadId),
)

/** What the items of one batch share: read once, and kept up to date by those that come first. */
interface Batch {
  board?: StoredBoard
  readonly unfinished: Map<ProjectId, number>
  readonly cap: number
  readonly lanes: Map<string, number>
}

/** The checks stand in the order of precedence. Items earlier in the batch count for later ones. */
export const createJobs = (tx: Transaction, items: ReadonlyArray<NewJob>): ReadonlyArray<CreateOutcome> => {
  const cap = items.reduce((highest, item) => Math.max(highest, item.queueCap), 0)
  const batch: Batch = { unfinished: new Map(), cap, lanes: new Map() }
  return items.map((item) => createJob(tx, batch, item))
}

const createJob = (tx: Transaction, batch: Batch, item: NewJob): CreateOutcome => {
  const existing = tx.get(jobByIdempotencyKey, { keyId: item.keyId, idempotencyKey: item.idempotencyKey })
  if (existing !== undefined)
    return existing.fingerprint === item.fingerprint
      ? { _tag: "Replayed", job: jobOf(tx, existing) }
      : { _tag: "KeyReused" }

  const board = item.gate === null ? undefined : (batch.board ??= loadBoard(tx))
  const missing =
    item.gate === null || board === undefined
      ? []
      : missingPrerequisites(item.gate, withForcedOff(board, item.forcedOff))
  if (missing.length > 0) return { _tag: "GateClosed", missing }

  if (item.uploadId !== null) {
    const row = tx.get(ownUpload, { id: item.uploadId, projectId: item.projectId, keyId: item.keyId, mode: item.mode })
    const reason = row === undefined ? "not_found" : uploadRefusal(uploadOf(row), tx.now, item.maxTransfers)
    if (reason !== undefined) return { _tag: "UploadRefused", reason }
  }

  if (item.queueCap > 0 && unfinishedOf(tx, batch, item.projectId) >= item.queueCap) return { _tag: "QueueFull" }

  return {
    _tag: "Created",
    job: insert(tx, batch, item, item.gate === null ? undefined : board?.stored[item.gate.price]),
  }
}

const unfinishedOf = (tx: Transaction, batch: Batch, projectId: ProjectId): number => {
  const known = batch.unfinished.get(projectId)
  if (known !== undefined) return known
  const count = tx.get(unfinishedJobs, { projectId, cap: batch.cap })?.count ?? 0
  batch.unfinished.set(projectId, count)
  return count
}

const insert = (tx: Transaction, batch: Batch, item: NewJob, price: StoredBoard["stored"][string] | undefined): Job => {
  const { now } = tx
  const { fingerprint, id, idempotencyKey, keyId, kind, kindVersion, mode, projectId, uploadId } = item
  const state = created(now, item.limits)
  const lane = `${mode} ${projectId} ${kindVersion} ${kind}`
  const laneId = batch.lanes.get(lane) ?? laneOf(tx, item)
  if (!batch.lanes.has(lane)) mayBeClaimableAt(tx, laneId, now)
  batch.lanes.set(lane, laneId)
  const row = tx.get(insertJob, {
    id,
    laneId,
    projectId,
    keyId,
    mode,
    kind,
    kindVersion,
    uploadId,
    idempotencyKey,
    fingerprint,
    priceId: price?.id ?? null,
    now,
    queueLimitMs: state.queueLimitMs,
    runLimitMs: state.runLimitMs,
    deadlineAt: state.deadlineAt ?? now,
  })
  if (row === undefined) throw new TypeError("an inserted job has a row")
  const request = JSON.stringify(item.request)
  tx.run(insertData, { seq: row.seq, request })
  if (uploadId !== null) tx.run(leaveSweep, { uploadId })
  const unfinished = batch.unfinished.get(projectId)
  if (unfinished !== undefined) batch.unfinished.set(projectId, unfinished + 1)
  return {
    ...state,
    id,
    projectId,
    keyId,
    mode,
    kind,
    kindVersion,
    uploadId,
    idempotencyKey,
    fingerprint,
    price: price?.snapshot ?? null,
    createdAt: now,
    // Decoded again: the caller sees what every later reader will see.
    retained: "kept",
    request: decodeObject(request, id),
    checkpoints: {},
    output: null,
    files: [],
    warningCode: null,
    charge: null,
  }
}
