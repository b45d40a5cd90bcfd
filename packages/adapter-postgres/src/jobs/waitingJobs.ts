import * as Effect from "effect/Effect"
import { sql } from "kysely"
import type { JobId, Priority } from "@kiln/core/domain"
import { areJobs, canonicalJson, isParked, type ParkedOn, rankOf, rescheduling, stepLabel } from "@kiln/core/rules"
import type { RescheduleOutcome, Rescheduling, SignalOutcome, SignalRequest } from "@kiln/core/ports"
import { decodePriority } from "@kiln/sql-store"
import { batchStatement, type Given, integer, query, statement, text } from "../Statement.ts"
import type { Database } from "../connection/Database.ts"
import type { Session, Transaction } from "../connection/Session.ts"
import { parentLock } from "../migrations/0012Signals.ts"
import { stateOf, type StateRow } from "./jobRow.ts"
import { mayBeClaimableAt } from "./lanes.ts"
import { finishedElsewhere, type Move, moveJobs } from "./moveJobs.ts"

type Signaled = { items: string; own: boolean; payload: string | null }

/** Calls `signal_jobs`, which is defined in a migration. */
const signalStatement = statement(({ items, own, payload }: Given<Signaled>) =>
  query.selectNoFrom(
    sql<ReadonlyArray<SignalOutcome>>`"kiln".signal_jobs(${items}::json, ${own}::boolean, ${payload}::text)`.as(
      "outcomes",
    ),
  ),
)

const textOf = (items: ReadonlyArray<SignalRequest>): string =>
  JSON.stringify(items.map(({ jobId, name, owner, value }) => ({ jobId, name, value: canonicalJson(value), ...owner })))

/** Keeps signals, the first value of each name. `payload`: in a transaction of a caller's, what notifies processes of it. */
export const signalJobs = async (
  session: Session,
  items: ReadonlyArray<SignalRequest>,
  callers?: { readonly payload: string | null },
): Promise<ReadonlyArray<SignalOutcome>> => {
  const asked = { items: textOf(items), own: callers === undefined, payload: callers?.payload ?? null }
  const row = await session.get(signalStatement, asked)
  if (row === undefined) throw new TypeError("signal_jobs returned no row")
  return row.outcomes
}

/**
 * The same in kiln's own transaction, which has locked `jobs`. One that was replaced meanwhile is not among them, and might park without seeing the
 * signal.
 */
export const signalLocked = async (
  tx: Transaction,
  items: ReadonlyArray<SignalRequest>,
  jobs: ReadonlyArray<StateRow>,
): Promise<ReadonlyArray<SignalOutcome>> => {
  const locked = new Set(jobs.map(({ id }) => id))
  const elsewhere = items.flatMap(({ jobId }) => (locked.has(jobId) ? [] : [jobId]))
  const [outcomes] = await Promise.all([signalJobs(tx, items), finishedElsewhere(tx, elsewhere)])
  return outcomes
}

const wakeStatement = statement(() => query.selectNoFrom(sql<number>`"kiln".wake_signaled()`.as("signaled")))

/** Wakes jobs whose signals callers have committed. Returns the number of jobs that have any, at most 500. */
const wakeSignaled = async (session: Session): Promise<number> => (await session.get(wakeStatement, {}))?.signaled ?? 0

export interface ParkedRow extends ParkedOn {
  readonly id: JobId
  readonly seq: number
}

/** What a parking needs to know of its event. */
export interface EventState {
  readonly hasCome: boolean
  readonly unfinished: number
  /** Another transaction may end one of the jobs now, without seeing that this one is parked. */
  readonly isUnsure: boolean
}

/** Waits for transactions that end children of these jobs. In the order of the ids, as those lock them. */
const lockParents = batchStatement({ id: text<JobId>() }, (item) =>
  query
    .selectFrom((from) =>
      from
        .selectFrom(item)
        .select(sql<string>`item.id collate "C"`.as("id"))
        .distinct()
        .orderBy("id")
        .offset(0)
        .as("parent"),
    )
    .select(sql`pg_advisory_xact_lock(${sql.raw(parentLock("parent.id"))})`.as("locked")),
)

const unfinishedChildren = batchStatement({ label: text() }, (item) =>
  query
    .selectFrom(item)
    .select((from) => [
      "item.label",
      from
        .selectFrom("job_labels")
        .innerJoin("queue", "queue.id", "job_labels.job_id")
        .select(sql<number>`count(*)`.as("count"))
        .whereRef("job_labels.label", "=", "item.label")
        .as("count"),
    ])
    .$castTo<{ readonly label: string; readonly count: number }>(),
)

/**
 * Counts the prerequisites of each job that have not finished, and locks them, so that a transaction which ends one then sees that the job
 * is parked. It waits for no lock, because the jobs themselves are locked already: `unsure` counts those that another transaction has locked,
 * which may end them and not see the job any more.
 */
const unfinishedPrerequisites = batchStatement({ seq: integer() }, (item) =>
  query
    .with("named", () =>
      query
        .selectFrom(item)
        .innerJoin("job_labels", "job_labels.job_seq", "item.seq")
        .select(["item.seq", sql<JobId>`substr(job_labels.label, 2)`.as("id")])
        .where(sql<string>`left(job_labels.label, 1)`, "=", "~"),
    )
    .with("locked", (from) =>
      from
        .selectFrom("queue")
        .select("queue.id")
        .where("queue.id", "=", sql<JobId>`any (array(select named.id from named))`)
        .orderBy("queue.id")
        .forKeyShare()
        .skipLocked(),
    )
    .selectFrom("named")
    .innerJoin("queue", "queue.id", "named.id")
    .leftJoin("locked", "locked.id", "named.id")
    .select((from) => [
      "named.seq",
      from.fn.countAll<number>().as("count"),
      sql<number>`count(*) filter (where locked.id is null)`.as("unsure"),
    ])
    .groupBy("named.seq"),
)

/** Waits for transactions that count down for these jobs, so that this one holds no lock that those may wait for. */
const lockParked = batchStatement({ seq: integer() }, (item) =>
  query
    .selectFrom("parked")
    .innerJoin(item, (join) => join.onRef("item.seq", "=", "parked.job_seq"))
    .select("parked.job_seq")
    .orderBy("parked.job_seq")
    .forNoKeyUpdate("parked"),
)

const presentSignals = batchStatement({ seq: integer(), name: text() }, (item) =>
  query
    .selectFrom("signals")
    .innerJoin(item, (join) => join.onRef("item.seq", "=", "signals.job_seq").onRef("item.name", "=", "signals.name"))
    .select(["item.seq", "item.name"]),
)

const labelOf = ({ id, subject }: ParkedRow): string => stepLabel({ jobId: id, step: subject })

/** Returns the states of the events that these jobs, which are locked, are to be parked on. */
export const eventStates = async (
  tx: Transaction,
  rows: ReadonlyArray<ParkedRow>,
): Promise<(row: ParkedRow) => EventState> => {
  const parents = rows.filter(({ reason }) => reason === "children")
  const awaiting = rows.filter(({ reason }) => reason === "signal")
  const dependents = rows.filter(({ reason }) => reason === "after")
  // Sent first, and answered with the rest: the server counts once it has the locks.
  const locks = [tx.runBatch(lockParents, parents), tx.batch(lockParked, dependents)]
  const [counts, present, prerequisites] = await Promise.all([
    tx.batch(
      unfinishedChildren,
      parents.map((row) => ({ label: labelOf(row) })),
    ),
    tx.batch(
      presentSignals,
      awaiting.map(({ seq, subject }) => ({ seq, name: subject })),
    ),
    tx.batch(unfinishedPrerequisites, dependents),
    ...locks,
  ])
  const prerequisitesOf = new Map(prerequisites.map((row) => [row.seq, row]))
  const unfinishedOf = new Map(counts.map(({ count, label }) => [label, count]))
  const signaled = new Set(present.map(({ name, seq }) => `${seq} ${name}`))
  return (row) => {
    if (row.reason === "signal")
      return { hasCome: signaled.has(`${row.seq} ${row.subject}`), unfinished: 0, isUnsure: false }
    if (!areJobs(row)) return { hasCome: false, unfinished: 0, isUnsure: false }
    const open = row.reason === "after" ? prerequisitesOf.get(row.seq) : undefined
    const unfinished = row.reason === "after" ? (open?.count ?? 0) : (unfinishedOf.get(labelOf(row)) ?? 0)
    return { hasCome: unfinished === 0, unfinished, isUnsure: (open?.unsure ?? 0) > 0 }
  }
}

/** The payload of a notification that a caller's transaction sends with a signal. */
export const signaledPayload = "signal"

/** Milliseconds after which a claim looks for signals without a notification, which may be lost or switched off. */
const lookEveryMs = 1_000

/**
 * Wakes jobs whose signals callers have committed: such a transaction locks no job, and leaves a row behind that any process may act on.
 * A claim looks for one after a notification, and once a second. Best effort: what one look does not do, the next one does.
 */
export class SignaledJobs {
  readonly #db: Pick<Database, "writeAtOnce">
  #nextLookAt = performance.now() + lookEveryMs

  constructor(db: Pick<Database, "writeAtOnce">) {
    this.#db = db
  }

  /** Must be called when a notification of a signal has come: the next claim looks. */
  hear(): void {
    this.#nextLookAt = -Infinity
  }

  get wake(): Effect.Effect<void> {
    return Effect.suspend(() => {
      const now = performance.now()
      if (now < this.#nextLookAt) return Effect.void
      this.#nextLookAt = now + lookEveryMs
      return Effect.ignore(this.#db.writeAtOnce("JobStore.claimJobs", 1, (session) => wakeSignaled(session)))
    })
  }
}

/** The tokens since which jobs are, or were, parked. */
const parkedTokens = batchStatement({ seq: integer() }, (item) =>
  query
    .selectFrom("parked")
    .innerJoin(item, (join) => join.onRef("item.seq", "=", "parked.job_seq"))
    .select(["item.seq", "parked.token"]),
)

/**
 * Changes when waiting jobs may be claimed, and lowers `next_at` of their lanes, or changes their priority. The jobs and lanes were locked
 * by this transaction.
 */
export const rescheduleJobs = async (
  tx: Transaction,
  items: ReadonlyArray<Rescheduling>,
  jobs: ReadonlyArray<StateRow>,
): Promise<ReadonlyArray<RescheduleOutcome>> => {
  const queued = new Map(jobs.map((job) => [job.id, job]))
  const elsewhere = items.flatMap(({ jobId }) => (queued.has(jobId) ? [] : [jobId]))
  const prioritized = new Set(items.flatMap(({ jobId, priority }) => (priority === undefined ? [] : [jobId])))
  const [finished, tokens, before] = await Promise.all([
    finishedElsewhere(tx, elsewhere),
    tx.batch(parkedTokens, jobs),
    readPriorities(
      tx,
      [...prioritized].filter((id) => queued.has(id)),
    ),
  ])
  const priorities = new Map<JobId, Priority>()
  const parked = new Map(tokens.map((row) => [row.seq, row]))
  const moves = new Map<JobId, Move>()
  const outcomes = items.map((item): RescheduleOutcome => {
    const { jobId } = item
    const job = queued.get(jobId)
    if (job === undefined) return finished.has(jobId) ? "AlreadyFinished" : "NotFound"
    const present = moves.get(jobId)?.to ?? stateOf(job)
    // Without a new one, the priority does not matter.
    const priority = priorities.get(jobId) ?? before.get(jobId) ?? "normal"
    const decided = rescheduling({ ...present, priority }, isParked(parked.get(job.seq), present), item, tx.now)
    if (typeof decided === "string") return decided
    if (decided.priority !== priority) priorities.set(jobId, decided.priority)
    if (decided.state !== undefined) moves.set(jobId, { from: job, to: decided.state })
    return "Rescheduled"
  })
  await changePriorities(tx, priorities)
  const all = [...moves.values()]
  if (all.length === 0) return outcomes
  tx.commitWith(
    moveJobs(tx, all),
    mayBeClaimableAt(
      tx,
      all.map(({ from, to }) => ({ laneId: from.laneId, claimableAt: to.claimableAt })),
    ),
  )
  return outcomes
}

const prioritiesInQueue = batchStatement({ id: text<JobId>() }, (item) =>
  query
    .selectFrom("queue")
    .innerJoin(item, (join) => join.onRef("item.id", "=", "queue.id"))
    .select(["queue.id", "queue.priority"]),
)

const readPriorities = async (tx: Transaction, ids: ReadonlyArray<JobId>): Promise<ReadonlyMap<JobId, Priority>> => {
  const rows = await tx.batch(
    prioritiesInQueue,
    ids.map((id) => ({ id })),
  )
  return new Map(rows.map(({ id, priority }) => [id, decodePriority(priority, id)]))
}

const changeInQueue = batchStatement({ id: text<JobId>(), rank: integer() }, (item) =>
  query
    .updateTable("queue")
    .from(item)
    .set((set) => ({ priority: set.ref("item.rank") }))
    .whereRef("queue.id", "=", "item.id"),
)

const changeInJobs = batchStatement({ id: text<JobId>(), rank: integer() }, (item) =>
  query
    .updateTable("jobs")
    .from(item)
    .set((set) => ({ priority: set.ref("item.rank") }))
    .whereRef("jobs.id", "=", "item.id"),
)

/** Changes the priorities of jobs that were locked. A trigger compares the two rows of each, so the queue comes first. */
const changePriorities = async (tx: Transaction, priorities: ReadonlyMap<JobId, Priority>): Promise<void> => {
  const changes = [...priorities].map(([id, priority]) => ({ id, rank: rankOf(priority) }))
  await tx.runBatch(changeInQueue, changes)
  await tx.runBatch(changeInJobs, changes)
}
