import { type FailedAttempt, type JobId, parkedRun, type Signal, type WaitRun } from "@kiln/core/domain"
import type { ChunkTotal } from "@kiln/core/ports"
import { sql } from "kysely"
import { select, type Values } from "./columns.ts"
import type { Program, Sql } from "./Sql.ts"
import { type Given, query, statement } from "./Statement.ts"
import { decodeJson } from "./storedJson.ts"

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
