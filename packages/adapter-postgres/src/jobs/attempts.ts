import { type AttemptRecord, type ErrorCode, type FailedAttempt, failedAttempt } from "@kiln/core/domain"
import type { Transaction } from "../Session.ts"
import { batchStatement, query } from "../Statement.ts"

type Row = Omit<FailedAttempt, "errorCode"> & { readonly seq: number; readonly errorCode: string }

const insertAttempts = batchStatement<Row, {}, unknown>(
  {
    seq: "bigint",
    number: "bigint",
    errorCode: "text",
    message: "text",
    stack: "text",
    startedAt: "bigint",
    durationMs: "bigint",
    worker: "text",
  },
  (item) =>
    query
      .insertInto("attempts")
      .columns(["job_seq", "number", "error_code", "message", "stack", "started_at", "duration_ms", "worker"])
      .expression(
        query
          .selectFrom(item)
          .select((from) => [
            "item.seq",
            "item.number",
            from.ref("item.errorCode").$castTo<ErrorCode>().as("errorCode"),
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
