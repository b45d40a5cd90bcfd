import { holdsClaim, type JobId } from "@kiln/core/domain"
import type { ChunkPage, ChunkQuestion, ChunkWrite, FencedOutcome } from "@kiln/core/ports"
import { decodeJson } from "@kiln/sql-store"
import { sql } from "kysely"
import type { Session, Transaction } from "../connection/Session.ts"
import { batchStatement, integer, query, statement, text } from "../Statement.ts"
import { finishedLock } from "../wakeUp/Listener.ts"
import type { StateRow } from "./jobRow.ts"

const insertChunks = batchStatement(
  { seq: integer(), position: integer(), attempt: integer(), value: text() },
  (item) =>
    query
      .insertInto("chunks")
      .columns(["job_seq", "position", "attempt", "value"])
      .expression(query.selectFrom(item).select(["item.seq", "item.position", "item.attempt", "item.value"]))
      .onConflict((conflict) => conflict.doNothing()),
)

/** Whether no process listens. One that begins to waits until this transaction has ended. */
const unheard = statement(() =>
  query.selectNoFrom(sql<boolean>`pg_try_advisory_xact_lock(${sql.raw(finishedLock)})`.as("unheard")),
)

/** The outcomes, and whether readers in other processes are to be told. */
interface Appended {
  readonly outcomes: ReadonlyArray<FencedOutcome>
  readonly isHeard: boolean
}

/** Keeps chunks of jobs that are locked until the end of the transaction. */
export const appendChunks = async (
  tx: Transaction,
  items: ReadonlyArray<ChunkWrite>,
  locked: ReadonlyArray<StateRow>,
): Promise<Appended> => {
  const jobs = new Map(locked.map((job) => [job.id, job]))
  const rows: Array<{ seq: number; position: number; attempt: number; value: string }> = []
  const outcomes = items.map(({ attempt, first, jobId, token, values }): FencedOutcome => {
    const job = jobs.get(jobId)
    if (job === undefined || !holdsClaim(job, token)) return "LeaseLost"
    for (const [place, value] of values.entries())
      rows.push({ seq: job.seq, position: first + place, attempt, value: JSON.stringify(value) })
    return "Written"
  })
  const [told] = await Promise.all([tx.all(unheard, {}), tx.runBatch(insertChunks, rows)])
  return { outcomes, isHeard: told[0]?.unheard !== true }
}

const statuses = batchStatement({ id: text<JobId>() }, (item) =>
  query
    .selectFrom("jobs")
    .innerJoin(item, (join) => join.onRef("item.id", "=", "jobs.id"))
    .select((from) => [
      "jobs.id",
      "jobs.seq",
      from
        .exists(from.selectFrom("results").select("results.job_seq").whereRef("results.job_seq", "=", "jobs.seq"))
        .$castTo<boolean>()
        .as("isFinished"),
    ]),
)

const chunksFrom = batchStatement({ id: text<JobId>(), from: integer(), most: integer() }, (item) =>
  query
    .selectFrom(item)
    .innerJoin("jobs", "jobs.id", "item.id")
    .innerJoinLateral(
      (from) =>
        from
          .selectFrom("chunks")
          .select(["position", "attempt", "value"])
          .whereRef("chunks.job_seq", "=", "jobs.seq")
          .whereRef("chunks.position", ">=", "item.from")
          .orderBy("position")
          .limit(sql<number>`item.most`)
          .as("chunk"),
      (join) => join.onTrue(),
    )
    .select([
      sql<number>`item.ord`.as("place"),
      "chunk.position as index",
      "chunk.attempt",
      sql<string>`chunk.value`.as("value"),
    ])
    .orderBy(sql`item.ord`)
    .orderBy("chunk.position"),
)

/** Whether jobs have finished is read first: no chunk follows one that has. */
export const readChunks = async (
  session: Session,
  items: ReadonlyArray<ChunkQuestion>,
): Promise<ReadonlyArray<ChunkPage | undefined>> => {
  const known = await session.batch(
    statuses,
    [...new Set(items.map(({ jobId }) => jobId))].map((id) => ({ id })),
  )
  const jobs = new Map(known.map((job) => [job.id, job]))
  const asked = items.map(({ from, jobId, limit }) => ({ id: jobId, from, most: limit }))
  const rows = asked.every(({ most }) => most === 0) ? [] : await session.batch(chunksFrom, asked)
  const byPlace = Map.groupBy(rows, ({ place }) => place - 1)
  return items.map(({ jobId }, place) => {
    const job = jobs.get(jobId)
    if (job === undefined) return undefined
    const chunks = (byPlace.get(place) ?? []).map(({ attempt, index, value }) => ({
      index,
      attempt,
      value: decodeJson(value, `a chunk of ${jobId}`),
    }))
    return { chunks, isFinished: job.isFinished }
  })
}
