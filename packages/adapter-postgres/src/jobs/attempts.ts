import { type AttemptRecord, type ErrorCode, type FailedAttempt, failedAttempt, type JobId } from "@kiln/core/domain"
import type { Session, Transaction } from "../Session.ts"
import { batchStatement, type Given, query, statement } from "../Statement.ts"

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
    {},
  )

/** A job without records has one row without a number. */
const attemptsOfJob = statement((given: Given<{ id: JobId }>) =>
  query
    .selectFrom("jobs")
    .leftJoin("attempts", "attempts.job_seq", "jobs.seq")
    .select([
      "attempts.number",
      "attempts.error_code as errorCode",
      "attempts.message",
      "attempts.stack",
      "attempts.started_at as startedAt",
      "attempts.duration_ms as durationMs",
      "attempts.worker",
    ])
    .where("jobs.id", "=", given.id)
    .orderBy("attempts.number"),
)

export const listAttempts = async (session: Session, id: JobId): Promise<ReadonlyArray<FailedAttempt> | undefined> => {
  const rows = await session.all(attemptsOfJob, { id })
  return rows.length === 0 ? undefined : rows.filter((row): row is FailedAttempt => row.number !== null)
}
