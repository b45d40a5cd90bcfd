import { sql } from "kysely"
import type { ErrorCode, JobId, JobState, WarningCode } from "@kiln/core/domain"
import { stateColumns, type StateRow } from "./jobRow.ts"
import type { Session, Transaction } from "../Session.ts"
import { batchStatement, query } from "../Statement.ts"
import type { JsonText } from "../columns.ts"

/** Keeps jobs in the queue as they are until this transaction ends. In the order of their ids, so that no two wait for each other. */
export const lockJobs = batchStatement<{ id: JobId }, {}, StateRow>({ id: "text" }, (item) =>
  query
    .selectFrom("queue")
    .innerJoin(item, (join) => join.onRef("item.id", "=", "queue.id"))
    .select(stateColumns)
    .orderBy("queue.id")
    .forUpdate("queue"),
)

/** The same, and nobody settles their lanes meanwhile: for what makes a job claimable earlier. See `settle_lanes`. */
const lockJobsAndLanes = batchStatement<{ id: JobId }, {}, StateRow>({ id: "text" }, (item) =>
  query
    .selectFrom("queue")
    .innerJoin(item, (join) => join.onRef("item.id", "=", "queue.id"))
    .innerJoin("lanes", "lanes.id", "queue.lane_id")
    .select(stateColumns)
    .orderBy("queue.id")
    .forUpdate("queue")
    .forKeyShare("lanes"),
)

type JobRefs = ReadonlyArray<{ readonly jobId: JobId }>
const idsOf = (items: JobRefs) => items.map(({ jobId: id }) => ({ id }))

/** The jobs of these items that are in the queue. */
export const lockedJobs = (session: Session, items: JobRefs): Promise<ReadonlyArray<StateRow>> =>
  session.batch(lockJobs, idsOf(items), {})

export const lockedJobsAndLanes = (session: Session, items: JobRefs): Promise<ReadonlyArray<StateRow>> =>
  session.batch(lockJobsAndLanes, idsOf(items), {})

/** Where a finished job ended, for those that are not in the queue. */
export const finishedStates = batchStatement<
  { id: JobId },
  {},
  {
    readonly id: JobId
    readonly status: "done" | "failed"
    readonly token: number
    readonly errorCode: ErrorCode | null
  }
>({ id: "text" }, (item) =>
  query
    .selectFrom("jobs")
    .innerJoin(item, (join) => join.onRef("item.id", "=", "jobs.id"))
    .select(["jobs.id", "jobs.status", "jobs.token", "jobs.error_code as errorCode"])
    .where("jobs.status", "is not", null)
    .$narrowType<{ status: "done" | "failed"; token: number }>(),
)

/** A job as it was read and locked, and as it is to be. */
export interface Move {
  readonly from: StateRow
  readonly to: JobState
}

/** What a job leaves behind that ends with a result. */
export interface Ending extends Move {
  readonly output: JsonText | null
  readonly warningCode: WarningCode | null
  readonly charge: JsonText | null
}

/**
 * Every move of a job that stays in the queue. What it was computed from stands in the WHERE: status, held and token
 * together are the fence, so an attempt that lost its claim cannot write even if whoever calls forgot to ask.
 */
const updateQueue = batchStatement<
  {
    id: JobId
    fromStatus: string
    fromHeld: boolean
    fromToken: number
    status: string
    held: boolean
    token: number
    claimableAt: number
    deadlineAt: number
    phaseStartedAt: number
    ranMs: number
    waitedMs: number
    attempts: number
    failures: number
    lostWorkers: number
  },
  {},
  unknown
>(
  {
    id: "text",
    fromStatus: "text",
    fromHeld: "boolean",
    fromToken: "bigint",
    status: "text",
    held: "boolean",
    token: "bigint",
    claimableAt: "bigint",
    deadlineAt: "bigint",
    phaseStartedAt: "bigint",
    ranMs: "bigint",
    waitedMs: "bigint",
    attempts: "bigint",
    failures: "bigint",
    lostWorkers: "bigint",
  },
  (item) =>
    query
      .updateTable("queue")
      .from(item)
      .set((set) => ({
        status: sql`${set.ref("item.status")}`,
        held: set.ref("item.held"),
        token: set.ref("item.token"),
        claimable_at: set.ref("item.claimableAt"),
        deadline_at: set.ref("item.deadlineAt"),
        phase_started_at: set.ref("item.phaseStartedAt"),
        ran_ms: set.ref("item.ranMs"),
        waited_ms: set.ref("item.waitedMs"),
        attempts: set.ref("item.attempts"),
        failures: set.ref("item.failures"),
        lost_workers: set.ref("item.lostWorkers"),
      }))
      .whereRef("queue.id", "=", "item.id")
      .whereRef(sql`queue.status`, "=", "item.fromStatus")
      .whereRef("queue.held", "=", "item.fromHeld")
      .whereRef("queue.token", "=", "item.fromToken"),
)

/** Moves jobs that were locked and remain unfinished. */
export const moveJobs = async (tx: Transaction, moves: ReadonlyArray<Move>): Promise<void> => {
  const written = await tx.runBatch(
    updateQueue,
    moves.map(({ from, to }) => ({
      id: from.id,
      fromStatus: from.status,
      fromHeld: from.held,
      fromToken: from.token,
      status: to.status,
      held: to.held,
      token: to.token,
      claimableAt: known(to.claimableAt),
      deadlineAt: known(to.deadlineAt),
      phaseStartedAt: known(to.phaseStartedAt),
      ranMs: to.ranMs,
      waitedMs: to.waitedMs,
      attempts: to.attempts,
      failures: to.failures,
      lostWorkers: to.lostWorkers,
    })),
    {},
  )
  expectAll(written, moves)
}

/** The fence once more, as above. Checkpoints go with the row. */
const leaveQueue = batchStatement<{ id: JobId; fromStatus: string; fromHeld: boolean; fromToken: number }, {}, unknown>(
  { id: "text", fromStatus: "text", fromHeld: "boolean", fromToken: "bigint" },
  (item) =>
    query
      .deleteFrom("queue")
      .using(item)
      .whereRef("queue.id", "=", "item.id")
      .whereRef(sql`queue.status`, "=", "item.fromStatus")
      .whereRef("queue.held", "=", "item.fromHeld")
      .whereRef("queue.token", "=", "item.fromToken"),
)

/** The end of a job, with everything a CHECK wants to see in one row. The ledger's row is written by a trigger on this statement. */
const finish = batchStatement<
  {
    seq: number
    status: string
    token: number
    ranMs: number
    waitedMs: number
    attempts: number
    failures: number
    lostWorkers: number
    finishedAt: number
    errorCode: string | null
    warningCode: string | null
    charge: JsonText | null
    output: JsonText | null
  },
  {},
  unknown
>(
  {
    seq: "bigint",
    status: "text",
    token: "bigint",
    ranMs: "bigint",
    waitedMs: "bigint",
    attempts: "bigint",
    failures: "bigint",
    lostWorkers: "bigint",
    finishedAt: "bigint",
    errorCode: "text",
    warningCode: "text",
    charge: "text",
    output: "text",
  },
  (item) =>
    query
      .updateTable("jobs")
      .from(item)
      .set((set) => ({
        status: sql`${set.ref("item.status")}`,
        token: set.ref("item.token"),
        ran_ms: set.ref("item.ranMs"),
        waited_ms: set.ref("item.waitedMs"),
        attempts: set.ref("item.attempts"),
        failures: set.ref("item.failures"),
        lost_workers: set.ref("item.lostWorkers"),
        finished_at: set.ref("item.finishedAt"),
        error_code: sql`${set.ref("item.errorCode")}`,
        warning_code: sql`${set.ref("item.warningCode")}`,
        charge: set.ref("item.charge"),
        output: set.ref("item.output"),
      }))
      .whereRef("jobs.seq", "=", "item.seq")
      .where("jobs.status", "is", null),
)

/**
 * Ends jobs that were locked: they leave the queue, and what stays of them is written into their own rows; in the order of
 * their ids, in which erasures lock them too.
 */
export const finishJobs = async (tx: Transaction, unsorted: ReadonlyArray<Ending>): Promise<void> => {
  const endings = unsorted.toSorted((a, b) => (a.from.id < b.from.id ? -1 : 1))
  const [left, finished] = await Promise.all([
    tx.runBatch(
      leaveQueue,
      endings.map(({ from }) => ({
        id: from.id,
        fromStatus: from.status,
        fromHeld: from.held,
        fromToken: from.token,
      })),
      {},
    ),
    tx.runBatch(
      finish,
      endings.map(({ charge, from, output, to, warningCode }) => ({
        seq: from.seq,
        status: to.status,
        token: to.token,
        ranMs: to.ranMs,
        waitedMs: to.waitedMs,
        attempts: to.attempts,
        failures: to.failures,
        lostWorkers: to.lostWorkers,
        finishedAt: known(to.finishedAt),
        errorCode: to.errorCode,
        warningCode,
        charge,
        output,
      })),
      {},
    ),
  ])
  expectAll(left, endings)
  expectAll(finished, endings)
}

/** An end without a result. */
export const withoutResult = (move: Move): Ending => ({ ...move, output: null, warningCode: null, charge: null })

const known = (time: number | null): number => {
  if (time === null) throw new TypeError("a job's times follow from its status")
  return time
}

/** They were locked when the move was computed, so nobody can have come in between. */
const expectAll = (written: number, moves: ReadonlyArray<Move>): void => {
  if (written !== moves.length) throw new TypeError(`${moves.length - written} of ${moves.length} jobs did not move`)
}
