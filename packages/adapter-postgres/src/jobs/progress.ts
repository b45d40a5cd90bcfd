import { sql } from "kysely"
import { applyEvent, holdsClaim, type JobId, type JobState } from "@kiln/core/domain"
import type {
  Checkpoint,
  ChunkPage,
  ChunkQuestion,
  ChunkWrite,
  ClaimRef,
  ExtendOutcome,
  Extension,
  FencedOutcome,
} from "@kiln/core/ports"
import { decodeJson } from "@kiln/sql-store"
import { assign, batchStatement, excluded, fieldsOf, flag, integer, query, statement, text } from "../Statement.ts"
import { fieldsFrom } from "../columns.ts"
import type { Session, Transaction } from "../connection/Session.ts"
import { finishedLock } from "../wakeUp/Listener.ts"
import { stateOf, type StateRow } from "./jobRow.ts"
import { mayBeClaimableAt } from "./lanes.ts"

/**
 * Heartbeats are frequent, so they write only the lease. The fence is in the WHERE clause. `held` is a column of the item,
 * because as a constant it would make the planner scan all held jobs.
 */
const moveLeases = batchStatement(
  {
    id: text<JobId>(),
    held: flag(),
    token: integer(),
    ...fieldsFrom("queue", "claimable_at", "deadline_at", "phase_started_at", "ran_ms"),
  },
  (item) =>
    query
      .updateTable("queue")
      .from(item)
      .set(assign(fieldsOf(item), "claimable_at", "deadline_at", "phase_started_at", "ran_ms"))
      .whereRef("queue.id", "=", "item.id")
      .where("queue.status", "=", "processing")
      .whereRef("queue.held", "=", "item.held")
      .whereRef("queue.token", "=", "item.token"),
)

export const extendLeases = async (
  tx: Transaction,
  items: ReadonlyArray<Extension>,
  locked: ReadonlyArray<StateRow>,
): Promise<ReadonlyArray<ExtendOutcome>> => {
  const jobs = new Map(locked.map((job) => [job.id, job]))
  const leases = new Map<JobId, { readonly token: number; readonly laneId: number; readonly state: JobState }>()
  const outcomes = items.map(({ jobId, leaseDurationMs, token }): ExtendOutcome => {
    const job = jobs.get(jobId)
    const present = leases.get(jobId)?.state ?? (job && stateOf(job))
    const extended =
      present && applyEvent(present, { event: "extended", token, leaseDurationMs: Math.ceil(leaseDurationMs) }, tx.now)
    if (job === undefined || extended?.claimableAt == null) return { _tag: "LeaseLost" }
    leases.set(jobId, { token, laneId: job.laneId, state: extended })
    // Past the run limit, no more time is granted.
    return { _tag: "Extended", leaseRemainingMs: Math.max(0, extended.claimableAt - tx.now) }
  })
  const written = await tx.runBatch(
    moveLeases,
    [...leases].map(([id, { state, token }]) => ({
      id,
      held: true,
      token,
      claimableAt: state.claimableAt ?? tx.now,
      deadlineAt: state.deadlineAt ?? tx.now,
      phaseStartedAt: state.phaseStartedAt ?? tx.now,
      ranMs: state.ranMs,
    })),
  )
  if (written !== leases.size) throw new TypeError("a lease that was locked did not move")
  // If the lease had ended, the lane's `next_at` may have been raised or cleared.
  await mayBeClaimableAt(
    tx,
    [...leases.values()].map(({ laneId, state }) => ({ laneId, claimableAt: state.claimableAt })),
  )
  return outcomes
}

const presentClaims = batchStatement({ id: text<JobId>(), held: flag(), token: integer() }, (item) =>
  query
    .selectFrom(item)
    .innerJoin("queue", (join) =>
      join
        .onRef("queue.id", "=", "item.id")
        .onRef("queue.held", "=", "item.held")
        .onRef("queue.token", "=", "item.token"),
    )
    .select("item.ord"),
)

/** Checks the fence without locking. `held` is a column of the item, see `extendLeases`. */
export const checkClaims = async (
  session: Session,
  items: ReadonlyArray<ClaimRef>,
): Promise<ReadonlyArray<boolean>> => {
  const claims = items.map(({ jobId: id, token }) => ({ id, held: true, token }))
  const present = new Set((await session.batch(presentClaims, claims)).map(({ ord }) => ord))
  return items.map((_, index) => present.has(index + 1))
}

/** A checkpoint of the same step is replaced. */
const keepSteps = batchStatement({ id: text<JobId>(), step: text(), value: text() }, (item) =>
  query
    .insertInto("checkpoints")
    .columns(["job_id", "step", "value"])
    .expression(query.selectFrom(item).select(["item.id", "item.step", "item.value"]))
    .onConflict((conflict) => conflict.columns(["job_id", "step"]).doUpdateSet(excluded("value"))),
)

/** Keeps checkpoints of jobs that are locked until the end of the transaction. */
export const checkpointJobs = async (
  tx: Transaction,
  items: ReadonlyArray<Checkpoint>,
  locked: ReadonlyArray<StateRow>,
): Promise<ReadonlyArray<FencedOutcome>> => {
  const jobs = new Map(locked.map((job) => [job.id, job]))
  // If a step occurs twice in the batch, the last one stays, as in two calls.
  const steps = new Map<string, { readonly id: JobId; readonly step: string; readonly value: string }>()
  const outcomes = items.map(({ jobId: id, step, token, value }): FencedOutcome => {
    const job = jobs.get(id)
    if (job === undefined || !holdsClaim(job, token)) return "LeaseLost"
    steps.set(JSON.stringify([id, step]), { id, step, value: JSON.stringify(value) })
    return "Written"
  })
  tx.commitWith(tx.runBatch(keepSteps, [...steps.values()]))
  return outcomes
}

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
