import { sql } from "kysely"
import type { AttemptRecord, FailedAttempt, JobId, Signal, WaitRun } from "@kiln/core/domain"
import { failedAttempt, parkedRun } from "@kiln/core/rules"
import type { ChunkTotal, LedgerEntry, LedgerPage, LedgerPart } from "@kiln/core/ports"
import {
  batchStatement,
  excluded,
  type Given,
  plenty,
  type Program,
  query,
  type RowOf,
  type Sql,
  statement,
} from "./Sql.ts"
import { camel, fieldsFrom, select, type Values } from "./columns.ts"
import { decodeJson, decodeLineItems } from "./storedJob.ts"

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

const attemptColumns = [
  "job_seq",
  "number",
  "error_code",
  "message",
  "stack",
  "started_at",
  "duration_ms",
  "worker",
] as const

const insertAttempts = batchStatement(fieldsFrom("attempts", ...attemptColumns), (item) =>
  query
    .insertInto("attempts")
    .columns(attemptColumns)
    .expression(query.selectFrom(item).select(attemptColumns.map((name) => `item.${camel(name)}`) as never)),
)

/** A failed attempt of a job. */
export interface KeptAttempt {
  readonly jobSeq: number
  readonly number: number
  readonly record: AttemptRecord
}

/** Keeps the records of attempts that end in this transaction. A trigger removes the oldest beyond the maximum. */
export function* keepAttempts(tx: Sql, attempts: ReadonlyArray<KeptAttempt>): Program<void> {
  const now = yield* tx.now()
  const rows = attempts.map(({ jobSeq, number, record }) => ({ jobSeq, ...failedAttempt(record, number, now) }))
  yield* tx.runBatch(insertAttempts, rows)
}

export const waitColumns = [
  "first_attempt",
  "last_attempt",
  "count",
  "reason",
  "subject",
  "cause",
  "first_at",
  "last_at",
] as const

/** A job without waits has one row without a reason. */
const waitsOfJob = statement((given: Given<Job>) =>
  query
    .selectFrom("jobs")
    .leftJoin("waits", "waits.job_seq", "jobs.seq")
    .select(select("waits", ...waitColumns))
    .where("jobs.id", "=", given.id)
    .orderBy("waits.first_attempt"),
)

/** The table that has the state of unfinished jobs. */
export type StateTable = "jobs" | "queue"

/** The parking of a job that is still parked. */
const parkedJob = (table: StateTable) =>
  statement((given: Given<Job>) => {
    const column = <A>(name: string) => sql<A>`${sql.ref(`${table}.${name}`)}`
    const parked = query.selectFrom("parked").innerJoin("jobs", "jobs.seq", "parked.job_seq")
    // Only one of the databases has a queue.
    const withState: typeof parked =
      table === "jobs"
        ? parked
        : parked.innerJoin<never, never, never>("queue" as never, "queue.id" as never, "jobs.id" as never)
    return withState
      .select(select("parked", "token", "reason", "subject", "parked_at"))
      .select(column<number>("attempts").as("attempts"))
      .where("jobs.id", "=", given.id)
      .where(column<string>("status"), "=", "processing")
      .where(column<number>("token"), "=", sql.ref<number>("parked.token"))
      .where(sql<boolean>`NOT ${column("held")}`)
  })

const parkedIn = { jobs: parkedJob("jobs"), queue: parkedJob("queue") }

/** Lists the waits of each job. On Postgres, all of it is one round trip. */
export function* listWaits(
  tx: Sql,
  ids: ReadonlyArray<JobId>,
  table: StateTable,
): Program<ReadonlyArray<ReadonlyArray<WaitRun> | undefined>> {
  const sent = ids.map((id) => [tx.all(waitsOfJob, { id }), tx.get(parkedIn[table], { id })] as const)
  const waits: Array<ReadonlyArray<WaitRun> | undefined> = []
  for (const [waited, parking] of sent) {
    const rows = yield* waited
    const parked = yield* parking
    const runs = rows.filter((row): row is WaitRun => row.reason !== null)
    const all = parked === undefined ? runs : [...runs, parkedRun(parked, parked.attempts)]
    waits.push(rows.length === 0 ? undefined : all)
  }
  return waits
}

const parkedColumns = ["job_seq", "token", "reason", "subject", "unfinished", "parked_at"] as const

const putParked = batchStatement(fieldsFrom("parked", ...parkedColumns), (item) =>
  query
    .insertInto("parked")
    .columns(parkedColumns)
    .expression(
      // In the order in which everybody locks them. Without a condition, SQLite takes ON CONFLICT for that of a join.
      query
        .selectFrom(item)
        .select(parkedColumns.map((name) => `item.${camel(name)}`) as never)
        .where(sql<boolean>`true`)
        .orderBy("item.jobSeq"),
    )
    .onConflict((conflict) => conflict.column("job_seq").doUpdateSet(excluded(...parkedColumns.slice(1)))),
)

/** A job that is parked, with its token from then on. */
export type KeptParking = Values<"parked", "job_seq" | "token" | "reason" | "subject" | "unfinished">

/** Keeps what jobs are parked on. */
export function* keepParked(tx: Sql, rows: ReadonlyArray<KeptParking>): Program<void> {
  const parkedAt = yield* tx.now()
  yield* tx.runBatch(
    putParked,
    rows.map(({ jobSeq, reason, subject, token, unfinished }) => ({
      jobSeq,
      token,
      reason,
      subject,
      unfinished,
      parkedAt,
    })),
  )
}

const signalsOfJob = statement((given: Given<Job>) =>
  query
    .selectFrom("signals")
    .innerJoin("jobs", "jobs.seq", "signals.job_seq")
    .select(select("signals", "name", "value", "at"))
    .where("jobs.id", "=", given.id)
    .orderBy("signals.name"),
)

export function* listSignals(tx: Sql, id: JobId): Program<ReadonlyArray<Signal>> {
  const rows = yield* tx.all(signalsOfJob, { id })
  return rows.map(({ at, name, value }) => ({ name, value: decodeJson(value, `a signal of ${id}`), at }))
}

const chunksOfJob = statement((given: Given<Job>) =>
  query
    .selectFrom("chunks")
    .innerJoin("jobs", "jobs.seq", "chunks.job_seq")
    .select((of) => [
      of.fn.countAll<number>().as("count"),
      sql<number>`cast(coalesce(sum(octet_length(${sql.ref("chunks.value")})), 0) as bigint)`.as("bytes"),
    ])
    .where("jobs.id", "=", given.id),
)

export function* countChunks(tx: Sql, id: JobId): Program<ChunkTotal> {
  return (yield* tx.get(chunksOfJob, { id })) ?? { count: 0, bytes: 0 }
}

type Page = { readonly time: number; readonly jobId: JobId | ""; readonly to: number; readonly limit: number }

/** Entries after a position of the index, in its order. */
export const chargesAfter = statement((given: Given<Page>) =>
  query
    .selectFrom("charges")
    .innerJoin(plenty, (join) => join.onTrue())
    .select(
      select("charges", "job_id", "project_id", "key_id", "kind", "currency", "amount", "line_items", "charged_at"),
    )
    .where(sql<boolean>`(charged_at, job_id) > (${given.time}, ${given.jobId})`)
    .where("charged_at", "<", given.to)
    .orderBy("charged_at")
    .orderBy("job_id")
    .limit(given.limit),
)

const entryOf = ({ amount, currency, lineItems, ...entry }: RowOf<typeof chargesAfter>): LedgerEntry => ({
  ...entry,
  charge: { currency, amount, lineItems: decodeLineItems(lineItems, `the charge of ${entry.jobId}`) },
})

/** The empty id sorts before every id of the same time. */
const positionBefore = ({ after, from }: LedgerPage) =>
  after === null || after.chargedAt < from
    ? { time: from, jobId: "" as const }
    : { time: after.chargedAt, jobId: after.jobId }

/** Reads a page of a ledger that is closed until this time. */
export function* readCharges(tx: Sql, page: LedgerPage, until: number): Program<LedgerPart> {
  const rows = yield* tx.all(chargesAfter, { ...positionBefore(page), to: until, limit: page.limit })
  return { entries: rows.map(entryOf), until }
}
