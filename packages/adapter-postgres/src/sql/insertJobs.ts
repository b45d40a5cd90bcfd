import { sql } from "kysely"
import type { Job, JobId, JobMode, KeyId, ProjectId, UploadId } from "@kiln/core/domain"
import type { NewJob } from "@kiln/core/ports"
import { Superseded, type Transaction } from "../Session.ts"
import { batchStatement, query, whole } from "../Statement.ts"
import { laneName, lanesOf, mayBeClaimableAt } from "./lanes.ts"

/** A job that was decided to be accepted. */
export interface Accepted {
  readonly item: NewJob
  readonly job: Job
  readonly priceId: number | null
}

/** In the order of their keys, so that no two transactions wait for each other; numbered in the order in which they came. */
const insertRows = batchStatement<
  {
    id: JobId
    projectId: ProjectId
    keyId: KeyId
    mode: JobMode
    kind: string
    kindVersion: number
    uploadId: UploadId | null
    idempotencyKey: string
    fingerprint: string
    priceId: number | null
    queueLimitMs: number
    runLimitMs: number
  },
  { now: number },
  { readonly id: JobId; readonly seq: number }
>(
  {
    id: "text",
    projectId: "text",
    keyId: "text",
    mode: "text",
    kind: "text",
    kindVersion: "bigint",
    uploadId: "text",
    idempotencyKey: "text",
    fingerprint: "text",
    priceId: "bigint",
    queueLimitMs: "bigint",
    runLimitMs: "bigint",
  },
  (item, given) =>
    query
      .insertInto("jobs")
      .columns([
        "seq",
        "id",
        "project_id",
        "key_id",
        "mode",
        "kind",
        "kind_version",
        "upload_id",
        "idempotency_key",
        "fingerprint",
        "price_id",
        "queue_limit_ms",
        "run_limit_ms",
        "created_at",
      ])
      .expression(
        query
          .selectFrom((from) =>
            from
              .selectFrom(item)
              .select([
                sql<number>`nextval('"kiln".jobs_seq_seq')`.as("seq"),
                "item.id",
                "item.projectId",
                "item.keyId",
                "item.mode",
                "item.kind",
                "item.kindVersion",
                "item.uploadId",
                "item.idempotencyKey",
                "item.fingerprint",
                "item.priceId",
                "item.queueLimitMs",
                "item.runLimitMs",
                whole(given.now).as("createdAt"),
              ])
              .orderBy("item.ord")
              .offset(0)
              .as("numbered"),
          )
          .selectAll()
          .orderBy("keyId")
          .orderBy("idempotencyKey"),
      )
      .onConflict((conflict) => conflict.columns(["key_id", "idempotency_key"]).doNothing())
      .returning(["id", "seq"]),
)

const insertQueue = batchStatement<
  {
    id: JobId
    seq: number
    laneId: number
    projectId: ProjectId
    kind: string
    mode: JobMode
    queueLimitMs: number
    runLimitMs: number
    deadlineAt: number
  },
  { now: number },
  unknown
>(
  {
    id: "text",
    seq: "bigint",
    laneId: "bigint",
    projectId: "text",
    kind: "text",
    mode: "text",
    queueLimitMs: "bigint",
    runLimitMs: "bigint",
    deadlineAt: "bigint",
  },
  (item, given) =>
    query
      .insertInto("queue")
      .columns([
        "id",
        "job_seq",
        "lane_id",
        "project_id",
        "kind",
        "mode",
        "created_at",
        "queue_limit_ms",
        "run_limit_ms",
        "claimable_at",
        "deadline_at",
        "phase_started_at",
        "status",
        "token",
        "held",
        "ran_ms",
        "waited_ms",
        "attempts",
        "failures",
        "lost_workers",
      ])
      .expression(
        query
          .selectFrom(item)
          .select([
            "item.id",
            "item.seq",
            "item.laneId",
            "item.projectId",
            "item.kind",
            "item.mode",
            whole(given.now).as("createdAt"),
            "item.queueLimitMs",
            "item.runLimitMs",
            whole(given.now).as("claimableAt"),
            "item.deadlineAt",
            whole(given.now).as("phaseStartedAt"),
          ])
          .select(sql<never>`'queued', 0, false, 0, 0, 0, 0, 0`.as("lost")),
      ),
)

const insertData = batchStatement<{ seq: number; request: string }, {}, unknown>(
  { seq: "bigint", request: "text" },
  (item) =>
    query
      .insertInto("job_data")
      .columns(["job_seq", "request"])
      .expression(query.selectFrom(item).select(["item.seq", "item.request"])),
)

/** The insertion consumed the uploads; this takes them out of the sweep's way. */
const leaveSweep = batchStatement<{ id: UploadId }, {}, unknown>({ id: "text" }, (item) =>
  query.updateTable("uploads").from(item).set({ sweep_at: null }).whereRef("uploads.id", "=", "item.id"),
)

/** Writes accepted jobs: their own rows, their places in the queue, what they ask for. */
export const insertJobs = async (tx: Transaction, accepted: ReadonlyArray<Accepted>): Promise<void> => {
  if (accepted.length === 0) return
  const { now } = tx
  const [lanes, inserted] = await Promise.all([
    lanesOf(
      tx,
      accepted.map(({ item }) => item),
    ),
    tx.batch(
      insertRows,
      accepted.map(({ job, priceId }) => ({ ...job, priceId })),
      { now },
    ),
  ])
  // Another transaction bound a key of these meanwhile and is committed by now: seen from the beginning, it is a replay.
  if (inserted.length < accepted.length) throw new Superseded()
  const seqs = new Map(inserted.map(({ id, seq }) => [id, seq]))
  const rows = accepted.map(({ item, job }) => ({
    ...job,
    seq: known(seqs.get(job.id)),
    laneId: known(lanes.get(laneName(item))),
    deadlineAt: job.deadlineAt ?? now,
    claimableAt: now,
    request: JSON.stringify(item.request),
  }))
  await Promise.all([
    tx.runBatch(insertQueue, rows, { now }),
    tx.runBatch(insertData, rows, {}),
    tx.runBatch(
      leaveSweep,
      rows.flatMap(({ uploadId: id }) => (id === null ? [] : [{ id }])),
      {},
    ),
  ])
  await mayBeClaimableAt(tx, rows)
}

const known = (number: number | undefined): number => {
  if (number === undefined) throw new TypeError("what was inserted has a number")
  return number
}
