import { sql } from "kysely"
import { type FailedAttempt, type JobId, parkedRun, type Signal, type WaitRun } from "@kiln/core/domain"
import type { ChunkTotal, LedgerEntry, LedgerPage, LedgerPart } from "@kiln/core/ports"
import { type Given, plenty, type Program, query, type RowOf, type Sql, statement } from "./Sql.ts"
import { select, type Values } from "./columns.ts"
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
