import {
  type Job,
  type JobId,
  type JobMode,
  type KeyId,
  priorityRank,
  type ProjectId,
  type UploadId,
} from "@kiln/core/domain"
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

/** Lanes that jobs of one batch went to, by name, with the earliest time one of these may be claimed. */
export type KnownLanes = Map<string, { readonly id: number; readonly nextAt: number }>

const enterLane = (tx: Transaction, lanes: KnownLanes, job: Job, startsAt: number): number => {
  const name = `${job.mode} ${job.projectId} ${job.kindVersion} ${job.kind}`
  const known = lanes.get(name)
  const id = known?.id ?? laneOf(tx, job)
  if (job.priority !== "normal") hasPriorities(tx, id)
  if (known !== undefined && known.nextAt <= startsAt) return id
  mayBeClaimableAt(tx, id, startsAt)
  lanes.set(name, { id, nextAt: startsAt })
  return id
}

/** Writes an accepted job. Returns it as every later reader will see it: with its JSON decoded again. */
export const insertJob = (tx: Transaction, lanes: KnownLanes, job: Job, priceId: number | null): Job => {
  const { id, uploadId } = job
  const startsAt = job.claimableAt ?? job.createdAt
  const kept = JSON.stringify(job.kept)
  const row = tx.get(insertRow, {
    id,
    laneId: enterLane(tx, lanes, job, startsAt),
    projectId: job.projectId,
    keyId: job.keyId,
    mode: job.mode,
    kind: job.kind,
    kindVersion: job.kindVersion,
    uploadId,
    idempotencyKey: job.idempotencyKey,
    fingerprint: job.fingerprint,
    priceId,
    priority: priorityRank[job.priority],
    kept,
    now: job.createdAt,
    queueLimitMs: job.queueLimitMs,
    runLimitMs: job.runLimitMs,
    startsAt,
    deadlineAt: job.deadlineAt ?? startsAt,
  })
  if (row === undefined) throw new TypeError("INSERT INTO jobs returned no row")
  const request = JSON.stringify(job.request)
  tx.run(insertData, { seq: row.seq, request })
  if (uploadId !== null) tx.run(leaveSweep, { uploadId })
  return { ...job, kept: decodeObject(kept, id), request: decodeObject(request, id) }
}
