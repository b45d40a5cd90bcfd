import {
  created,
  type Job,
  type JobId,
  type JobMode,
  type KeyId,
  type PriceSnapshot,
  priorityRank,
  type ProjectId,
  type UploadId,
} from "@kiln/core/domain"
import type { NewJob } from "@kiln/core/ports"
import { decodeObject } from "@kiln/core/ports"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"
import { hasPriorities, laneOf, mayBeClaimableAt } from "./lanes.ts"

const insertRow = statement(
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
      priority: number
      kept: string
      now: number
      queueLimitMs: number
      runLimitMs: number
      startsAt: number
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
        priority: given.priority,
        kept: given.kept,
        created_at: given.now,
        queue_limit_ms: given.queueLimitMs,
        run_limit_ms: given.runLimitMs,
        status: "queued",
        token: 0,
        held: 0,
        claimable_at: given.startsAt,
        deadline_at: given.deadlineAt,
        phase_started_at: given.startsAt,
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

/** A price as a job refers to it. */
export interface StoredPrice {
  readonly id: number
  readonly snapshot: PriceSnapshot
}

/** Lanes that jobs of one batch went to, by name, with the earliest time one of these may be claimed. */
export type KnownLanes = Map<string, { readonly id: number; readonly nextAt: number }>

const enterLane = (tx: Transaction, lanes: KnownLanes, item: NewJob, startsAt: number): number => {
  const name = `${item.mode} ${item.projectId} ${item.kindVersion} ${item.kind}`
  const known = lanes.get(name)
  const id = known?.id ?? laneOf(tx, item)
  if (item.priority !== "normal") hasPriorities(tx, id)
  if (known !== undefined && known.nextAt <= startsAt) return id
  mayBeClaimableAt(tx, id, startsAt)
  lanes.set(name, { id, nextAt: startsAt })
  return id
}

/** Writes a job that nothing speaks against any more. */
export const insertJob = (tx: Transaction, lanes: KnownLanes, item: NewJob, price: StoredPrice | undefined): Job => {
  const { now } = tx
  const { fingerprint, id, idempotencyKey, keyId, kind, kindVersion, mode, priority, projectId, uploadId } = item
  const state = created(now, item.limits, item.delayMs)
  const startsAt = state.claimableAt ?? now
  const kept = JSON.stringify(item.kept)
  const row = tx.get(insertRow, {
    id,
    laneId: enterLane(tx, lanes, item, startsAt),
    projectId,
    keyId,
    mode,
    kind,
    kindVersion,
    uploadId,
    idempotencyKey,
    fingerprint,
    priceId: price?.id ?? null,
    priority: priorityRank[priority],
    kept,
    now,
    queueLimitMs: state.queueLimitMs,
    runLimitMs: state.runLimitMs,
    startsAt,
    deadlineAt: state.deadlineAt ?? startsAt,
  })
  if (row === undefined) throw new TypeError("an inserted job has a row")
  const request = JSON.stringify(item.request)
  tx.run(insertData, { seq: row.seq, request })
  if (uploadId !== null) tx.run(leaveSweep, { uploadId })
  return {
    ...state,
    id,
    projectId,
    keyId,
    mode,
    kind,
    kindVersion,
    uploadId,
    priority,
    idempotencyKey,
    fingerprint,
    price: price?.snapshot ?? null,
    // Decoded again: the caller sees what every later reader will see.
    kept: decodeObject(kept, id),
    createdAt: now,
    retained: "kept",
    request: decodeObject(request, id),
    checkpoints: {},
    output: null,
    files: [],
    warningCode: null,
    charge: null,
  }
}
