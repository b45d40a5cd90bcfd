import {
  type AttemptRecord,
  type AttemptWait,
  type ErrorCode,
  failedAttempt,
  maxWaitRuns,
  type WaitReason,
} from "@kiln/core/domain"
import { sql } from "kysely"
import type { Transaction } from "../connection/Session.ts"
import { batchStatement, integer, nullable, query, text } from "../Statement.ts"

const insertAttempts = batchStatement(
  {
    seq: integer(),
    number: integer(),
    errorCode: text<ErrorCode>(),
    message: text(),
    stack: nullable(text()),
    startedAt: integer(),
    durationMs: integer(),
    worker: text(),
  },
  (item) =>
    query
      .insertInto("attempts")
      .columns(["job_seq", "number", "error_code", "message", "stack", "started_at", "duration_ms", "worker"])
      .expression(
        query
          .selectFrom(item)
          .select([
            "item.seq",
            "item.number",
            "item.errorCode",
            "item.message",
            "item.stack",
            "item.startedAt",
            "item.durationMs",
            "item.worker",
          ]),
      ),
)

/** A failed attempt of a locked job. */
export interface KeptAttempt {
  readonly seq: number
  readonly number: number
  readonly record: AttemptRecord
}

/** Keeps the records of attempts that end in this transaction. A trigger removes the oldest beyond the maximum. */
export const keepAttempts = (tx: Transaction, attempts: ReadonlyArray<KeptAttempt>): Promise<number> =>
  tx.runBatch(
    insertAttempts,
    attempts.map(({ number, record, seq }) => ({ seq, ...failedAttempt(record, number, tx.now) })),
  )

/** Lengthens the newest run of a job, or begins another, like `withWait`. */
const putWaits = batchStatement(
  {
    seq: integer(),
    number: integer(),
    reason: text<WaitReason>(),
    subject: nullable(text()),
    cause: nullable(text()),
    at: integer(),
  },
  (item) =>
    query
      .insertInto("waits")
      .columns([
        "job_seq",
        "first_attempt",
        "last_attempt",
        "count",
        "reason",
        "subject",
        "cause",
        "first_at",
        "last_at",
      ])
      .expression(
        query
          .selectFrom(item)
          .leftJoinLateral(
            (from) =>
              from
                .selectFrom("waits")
                .selectAll()
                .whereRef("waits.job_seq", "=", "item.seq")
                .orderBy("waits.first_attempt", "desc")
                .limit(1)
                .as("newest"),
            (join) =>
              join
                .on(sql<boolean>`newest.last_attempt = item.number - 1`)
                .onRef("newest.reason", "=", sql.ref("item.reason"))
                .onRef("newest.subject", "is not distinct from", "item.subject")
                .onRef("newest.cause", "is not distinct from", "item.cause"),
          )
          .select([
            "item.seq",
            sql<number>`coalesce(newest.first_attempt, item.number)`.as("first"),
            "item.number",
            sql<number>`1::bigint`.as("count"),
            "item.reason",
            "item.subject",
            "item.cause",
            "item.at",
            sql<number>`item.at`.as("last"),
          ]),
      )
      .onConflict((conflict) =>
        conflict.columns(["job_seq", "first_attempt"]).doUpdateSet((set) => ({
          last_attempt: set.ref("excluded.last_attempt"),
          last_at: set.ref("excluded.last_at"),
          count: sql<number>`waits.count + 1`,
        })),
      ),
)

/** Runs are kept up to `maxWaitRuns`, the newest. */
const dropWaits = batchStatement({ seq: integer() }, (item) =>
  query
    .deleteFrom("waits")
    .using(item)
    .whereRef("waits.job_seq", "=", "item.seq")
    .where(
      "waits.first_attempt",
      "<=",
      sql<number>`(select older.first_attempt from "kiln".waits as older where older.job_seq = item.seq
        order by older.first_attempt desc limit 1 offset ${sql.lit(maxWaitRuns)})`,
    ),
)

/** An attempt of a locked job that ends to wait. */
export interface KeptWait {
  readonly seq: number
  readonly number: number
  readonly wait: AttemptWait
}

/** Keeps that these attempts, which end in this transaction, ended to wait. */
export const keepWaits = async (tx: Transaction, waits: ReadonlyArray<KeptWait>): Promise<void> => {
  await Promise.all([
    tx.runBatch(
      putWaits,
      waits.map(({ number, seq, wait: { cause, reason, subject } }) => ({
        seq,
        number,
        reason,
        subject,
        cause,
        at: tx.now,
      })),
    ),
    tx.runBatch(
      dropWaits,
      waits.filter(({ number }) => number > maxWaitRuns),
    ),
  ])
}
