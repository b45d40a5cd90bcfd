import { type AttemptRecord, type ErrorCode, failedAttempt } from "@kiln/core/domain"
import type { Transaction } from "../Session.ts"
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
