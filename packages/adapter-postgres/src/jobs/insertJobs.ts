import { sql } from "kysely"
import {
  type Job,
  type JobId,
  type JobMode,
  type KeyId,
  priorityRank,
  type ProjectId,
  type UploadId,
} from "@kiln/core/domain"
import type { NewJob } from "@kiln/core/ports"
import { type Session, type Transaction } from "../Session.ts"
import { Superseded } from "../postgresErrors.ts"
import { batchStatement, query, whole } from "../Statement.ts"
import { laneName, makeLanes, mayBeClaimableAt } from "./lanes.ts"
import { letGoOfUploads, type RetriedJob } from "./retriedJobs.ts"

/** A job that was decided to be accepted. */
export interface Accepted {
  readonly item: NewJob
  readonly job: Job
  readonly priceId: number | null
  readonly retried: RetriedJob | undefined
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
    rank: number
    kept: string
    idempotencyKey: string
    fingerprint: string
    priceId: number | null
    queueLimitMs: number
    runLimitMs: number
  },
  { now: number },
  unknown
>(
  {
    id: "text",
    projectId: "text",
    keyId: "text",
    mode: "text",
    kind: "text",
    kindVersion: "bigint",
    uploadId: "text",
    rank: "bigint",
    kept: "text",
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
        "priority",
        "kept",
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
                "item.rank",
                "item.kept",
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
      .onConflict((conflict) => conflict.columns(["key_id", "idempotency_key"]).doNothing()),
)

const insertQueue = batchStatement<
  {
    id: JobId
    laneId: number
    projectId: ProjectId
    kind: string
    mode: JobMode
    rank: number
    queueLimitMs: number
    runLimitMs: number
    claimableAt: number
    deadlineAt: number
  },
  { now: number },
  unknown
>(
  {
    id: "text",
    laneId: "bigint",
    projectId: "text",
    kind: "text",
    mode: "text",
    rank: "bigint",
    queueLimitMs: "bigint",
    runLimitMs: "bigint",
    claimableAt: "bigint",
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
        "priority",
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
          .innerJoin("jobs", "jobs.id", "item.id")
          .select([
            "item.id",
            "jobs.seq",
            "item.laneId",
            "item.projectId",
            "item.kind",
            "item.mode",
            "item.rank",
            whole(given.now).as("createdAt"),
            "item.queueLimitMs",
            "item.runLimitMs",
            "item.claimableAt",
            "item.deadlineAt",
            // What is to begin later waits from then on.
            "item.claimableAt as phaseStartedAt",
          ])
          .select(sql<never>`'queued', 0, false, 0, 0, 0, 0, 0`.as("lost")),
      ),
)

const insertData = batchStatement<{ id: JobId; request: string }, {}, unknown>(
  { id: "text", request: "text" },
  (item) =>
    query
      .insertInto("job_data")
      .columns(["job_seq", "request"])
      .expression(query.selectFrom(item).innerJoin("jobs", "jobs.id", "item.id").select(["jobs.seq", "item.request"])),
)

/** The insertion consumed the uploads; this takes them out of the sweep's way. */
const leaveSweep = batchStatement<{ id: UploadId }, {}, unknown>({ id: "text" }, (item) =>
  query.updateTable("uploads").from(item).set({ sweep_at: null }).whereRef("uploads.id", "=", "item.id"),
)

/** The rows of accepted jobs in lanes that are there, in the order of the items. */
export const rowsOf = (accepted: ReadonlyArray<Accepted>, lanes: ReadonlyMap<string, number>, now: number) =>
  accepted.map(({ item, job, priceId, retried }) => ({
    ...job,
    priceId,
    retried,
    rank: priorityRank[job.priority],
    kept: JSON.stringify(item.kept),
    laneId: known(lanes.get(laneName(item))),
    deadlineAt: job.deadlineAt ?? now,
    claimableAt: job.claimableAt ?? now,
    request: JSON.stringify(item.request),
  }))

/** An accepted job, ready to be written. */
export type NewRow = ReturnType<typeof rowsOf>[number]

/**
 * Binds their keys, with rows of their own, and answers how many there are now. Waits for whoever is about to bind one of them;
 * a key that is bound by then gets none.
 */
export const bindKeys = async (session: Session, now: number, rows: ReadonlyArray<NewRow>): Promise<number> => {
  const [, bound] = await Promise.all([
    letGoOfUploads(
      session,
      rows.flatMap(({ retried }) => retried ?? []),
    ),
    session.runBatch(insertRows, rows, { now }),
  ])
  return bound
}

/** The places in the queue of those whose rows are there, and what they ask for. Waits for nobody. */
export const fillRows = async (session: Session, now: number, rows: ReadonlyArray<NewRow>): Promise<void> => {
  await Promise.all([
    session.runBatch(insertQueue, rows, { now }),
    session.runBatch(insertData, rows, {}),
    session.runBatch(
      leaveSweep,
      rows.flatMap(({ uploadId: id }) => (id === null ? [] : [{ id }])),
      {},
    ),
  ])
}

/** Both in one flight. Throws `Superseded` where another transaction bound a key of these meanwhile: it is committed by now. */
const writeRows = async (session: Session, now: number, rows: ReadonlyArray<NewRow>): Promise<void> => {
  const [bound] = await Promise.all([bindKeys(session, now, rows), fillRows(session, now, rows)])
  // Seen from the beginning, it is a replay.
  if (bound < rows.length) throw new Superseded()
}

/** Writes accepted jobs, with their lanes. One flight, when those are known. */
export const insertJobs = async (
  tx: Transaction,
  accepted: ReadonlyArray<Accepted>,
  lanes: Map<string, number>,
): Promise<void> => {
  if (accepted.length === 0) return
  await makeLanes(
    tx,
    accepted.map(({ item }) => item),
    lanes,
  )
  const rows = rowsOf(accepted, lanes, tx.now)
  await Promise.all([writeRows(tx, tx.now, rows), mayBeClaimableAt(tx, rows)])
}

const known = (laneId: number | undefined): number => {
  if (laneId === undefined) throw new TypeError("an inserted lane has an id")
  return laneId
}
