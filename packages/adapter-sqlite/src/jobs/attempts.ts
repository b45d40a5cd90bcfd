import { type AttemptRecord, type AttemptWait, failedAttempt, maxWaitRuns, withWait } from "@kiln/core/domain"
import { assign, select, type Values } from "../columns.ts"
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

const names = ["first_attempt", "last_attempt", "count", "reason", "subject", "cause", "first_at", "last_at"] as const

const waitsOfJob = statement((given: Given<Values<"waits", "job_seq">>) =>
  query
    .selectFrom("waits")
    .select(select("waits", ...names))
    .where("job_seq", "=", given.jobSeq)
    .orderBy("first_attempt"),
)

const putWait = statement((given: Given<Values<"waits", "job_seq" | (typeof names)[number]>>) =>
  query
    .insertInto("waits")
    .values(assign(given, "job_seq", ...names))
    .onConflict((conflict) =>
      conflict.columns(["job_seq", "first_attempt"]).doUpdateSet(assign(given, "last_attempt", "count", "last_at")),
    ),
)

const dropWaits = statement((given: Given<Values<"waits", "job_seq" | "first_attempt">>) =>
  query.deleteFrom("waits").where("job_seq", "=", given.jobSeq).where("first_attempt", "<", given.firstAttempt),
)

/** Keeps that the attempt that ends in this transaction ended to wait. */
export const keepWait = (tx: Transaction, jobSeq: number, attempt: number, wait: AttemptWait): void => {
  const runs = withWait(tx.all(waitsOfJob, { jobSeq }), wait, attempt, tx.now)
  const [oldest] = runs
  const newest = runs.at(-1)
  if (oldest === undefined || newest === undefined) return
  tx.run(putWait, { jobSeq, ...newest })
  if (runs.length === maxWaitRuns) tx.run(dropWaits, { jobSeq, firstAttempt: oldest.firstAttempt })
}
