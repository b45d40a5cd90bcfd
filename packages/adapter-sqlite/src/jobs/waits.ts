import { type AttemptWait, maxWaitRuns, withWait } from "@kiln/core/domain"
import { assign, select, type Values } from "../columns.ts"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"

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
