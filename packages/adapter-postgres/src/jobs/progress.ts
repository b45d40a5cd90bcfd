import { sql } from "kysely"
import type { JobId, JobState } from "@kiln/core/domain"
import { applyEvent } from "@kiln/core/rules"
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
import { type BatchRow, decodeJson } from "@kiln/sql-store"
import {
  assign,
  batchStatement,
  type BatchTable,
  excluded,
  fieldsOf,
  flag,
  type Given,
  integer,
  type ItemOf,
  nullable,
  query,
  text,
} from "../Statement.ts"
import { fieldsFrom } from "../columns.ts"
import { briefLockTimeoutMs, type Session, type Transaction } from "../connection/Session.ts"
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
  tx.commitWith(
    mayBeClaimableAt(
      tx,
      [...leases.values()].map(({ laneId, state }) => ({ laneId, claimableAt: state.claimableAt })),
    ),
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

/** The fields of an item that writes under a claim. */
const fenced = { id: text<JobId>(), held: flag(), token: integer() }

/**
 * Selects the items whose claims are held, as the table `present`, and locks their jobs until the statement has committed, so that whatever ends a
 * claim finds what was written under it. In the order of their ids, to avoid deadlocks, and briefly, because other callers wait for the batch. `held`
 * is a column of the item, see `extendLeases`.
 */
const withPresent = <Item extends ItemOf<typeof fenced>>(item: BatchTable<Item>, given: Given<{ brief: string }>) => {
  const claims: BatchTable<ItemOf<typeof fenced>> = item
  return query
    .with("brief", (from) => from.selectNoFrom(sql`set_config('lock_timeout', ${given.brief}::text, true)`.as("limit")))
    .with("present", (from) =>
      from
        .selectFrom("brief")
        .innerJoin(claims, (join) => join.onTrue())
        .innerJoin("queue", (join) =>
          join
            .onRef("queue.id", "=", "item.id")
            .onRef("queue.held", "=", "item.held")
            .onRef("queue.token", "=", "item.token"),
        )
        .select("queue.job_seq as seq")
        .selectAll("item")
        .$castTo<BatchRow<Item> & { readonly seq: number }>()
        .orderBy("queue.id")
        .forUpdate("queue"),
    )
}

/** A checkpoint of the same step is replaced. */
const keepSteps = batchStatement({ ...fenced, step: text(), value: text() }, (item, given: Given<{ brief: string }>) =>
  withPresent(item, given)
    .with("kept", (from) =>
      from
        .insertInto("checkpoints")
        .columns(["job_id", "step", "value"])
        .expression(from.selectFrom("present").select(["id", "step", "value"]))
        .onConflict((conflict) => conflict.columns(["job_id", "step"]).doUpdateSet(excluded("value"))),
    )
    .selectFrom("present")
    .select("ord"),
)

export const checkpointJobs = async (
  session: Session,
  items: ReadonlyArray<Checkpoint>,
): Promise<ReadonlyArray<FencedOutcome>> => {
  const claim = ({ jobId: id, step, token, value }: Checkpoint) => ({
    id,
    held: true,
    token,
    step,
    value: JSON.stringify(value),
  })
  // If a step occurs twice in the batch, the last one stays, as in two calls.
  const keyOf = ({ jobId, step, token }: Checkpoint): string => JSON.stringify([jobId, token, step])
  const last = new Map(items.map((item) => [keyOf(item), item]))
  const keys = [...last.keys()]
  const rows = await session.batch(keepSteps, [...last.values()].map(claim), {
    brief: String(briefLockTimeoutMs(session)),
  })
  const written = new Set(rows.map(({ ord }) => keys[ord - 1]))
  return items.map((item) => (written.has(keyOf(item)) ? "Written" : "LeaseLost"))
}

const insertChunks = batchStatement(
  { ...fenced, place: integer(), position: integer(), attempt: integer(), value: nullable(text()) },
  (item, given: Given<{ brief: string }>) =>
    withPresent(item, given)
      .with("kept", (from) =>
        from
          .insertInto("chunks")
          .columns(["job_seq", "position", "attempt", "value"])
          .expression(
            from
              .selectFrom("present")
              .select(["seq", "position", "attempt", sql<string>`value`.as("value")])
              .where("value", "is not", null),
          )
          .onConflict((conflict) => conflict.doNothing()),
      )
      .selectFrom("present")
      // One that begins to listen waits until this statement has committed.
      .select(["place", sql<boolean>`(select pg_try_advisory_xact_lock(${sql.raw(finishedLock)}))`.as("unheard")]),
)

/** The outcomes, and whether readers in other processes are to be told. */
interface Appended {
  readonly outcomes: ReadonlyArray<FencedOutcome>
  readonly isHeard: boolean
}

export const appendChunks = async (session: Session, items: ReadonlyArray<ChunkWrite>): Promise<Appended> => {
  const chunks = items.flatMap(({ attempt, first, jobId: id, token, values }, place) => {
    // Of an item without values, only the claim is checked.
    const written = values.length === 0 ? [null] : values.map((value) => JSON.stringify(value))
    return written.map((value, index) => ({ id, held: true, token, place, position: first + index, attempt, value }))
  })
  const rows = await session.batch(insertChunks, chunks, { brief: String(briefLockTimeoutMs(session)) })
  const written = new Set(rows.map(({ place }) => place))
  return {
    outcomes: items.map((_, place) => (written.has(place) ? "Written" : "LeaseLost")),
    isHeard: rows.some(({ unheard }) => !unheard),
  }
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
