import type { FailedAttempt, JobId, WaitRun } from "@kiln/core/domain"
import { select, type Values } from "./columns.ts"
import type { Program, Sql } from "./Sql.ts"
import { type Given, query, statement } from "./Statement.ts"

type Job = Values<"jobs", "id">

/** A job without records has one row without a number. */
const attemptsOfJob = statement((given: Given<Job>) =>
  query
    .selectFrom("jobs")
    .leftJoin("attempts", "attempts.job_seq", "jobs.seq")
    .select(select("attempts", "number", "error_code", "message", "stack", "started_at", "duration_ms", "worker"))
    .where("jobs.id", "=", given.id)
    .orderBy("attempts.number"),
)

export function* listAttempts(tx: Sql, id: JobId): Program<ReadonlyArray<FailedAttempt> | undefined> {
  const rows = yield* tx.all(attemptsOfJob, { id })
  return rows.length === 0 ? undefined : rows.filter((row): row is FailedAttempt => row.number !== null)
}

/** A job without waits has one row without a reason. */
const waitsOfJob = statement((given: Given<Job>) =>
  query
    .selectFrom("jobs")
    .leftJoin("waits", "waits.job_seq", "jobs.seq")
    .select(
      select("waits", "reason", "subject", "cause", "first_attempt", "last_attempt", "count", "first_at", "last_at"),
    )
    .where("jobs.id", "=", given.id)
    .orderBy("waits.first_attempt"),
)

export function* listWaits(tx: Sql, id: JobId): Program<ReadonlyArray<WaitRun> | undefined> {
  const rows = yield* tx.all(waitsOfJob, { id })
  return rows.length === 0 ? undefined : rows.filter((row): row is WaitRun => row.reason !== null)
}
