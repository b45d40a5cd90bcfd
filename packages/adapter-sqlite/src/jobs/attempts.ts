import { type AttemptRecord, failedAttempt } from "@kiln/core/domain"
import { assign, type Values } from "../columns.ts"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"

type Row = Values<
  "attempts",
  "job_seq" | "number" | "error_code" | "message" | "stack" | "started_at" | "duration_ms" | "worker"
>

const insertAttempt = statement((given: Given<Row>) =>
  query.insertInto("attempts").values({
    ...assign(given, "job_seq", "number", "error_code", "message", "stack"),
    ...assign(given, "started_at", "duration_ms", "worker"),
  }),
)

/** Keeps the record of the attempt that ends in this transaction. A trigger removes the oldest beyond the maximum. */
export const keepAttempt = (tx: Transaction, jobSeq: number, number: number, record: AttemptRecord): void => {
  tx.run(insertAttempt, { jobSeq, ...failedAttempt(record, number, tx.now) })
}

const deleteAttempts = statement((given: Given<Values<"attempts", "job_seq">>) =>
  query.deleteFrom("attempts").where("job_seq", "=", given.jobSeq),
)

export const eraseAttempts = (tx: Transaction, jobSeq: number): void => {
  tx.run(deleteAttempts, { jobSeq })
}
