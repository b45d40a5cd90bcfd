import { sql } from "kysely"
import { isFinished } from "@kiln/core/domain"
import { applyEvent } from "@kiln/core/rules"
import type {
  Checkpoint,
  ChunkPage,
  ChunkQuestion,
  ChunkWrite,
  ExtendOutcome,
  Extension,
  FencedOutcome,
} from "@kiln/core/ports"
import { decodeJson } from "@kiln/sql-store"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"
import { assign, select, type Values } from "../columns.ts"
import { stateById, stateOf } from "./JobRow.ts"
import { mayBeClaimableAt } from "./lanes.ts"

type Lease = Values<"jobs", "id" | "token" | "claimable_at" | "deadline_at" | "phase_started_at" | "ran_ms">

/** Heartbeats are the most frequent writes, so they write only the lease. The fence is in the WHERE. */
const moveLease = statement((given: Given<Lease>) =>
  query
    .updateTable("jobs")
    .set(assign(given, "claimable_at", "deadline_at", "phase_started_at", "ran_ms"))
    .where("id", "=", given.id)
    .where("status", "=", "processing")
    .where("held", "=", 1)
    .where("token", "=", given.token),
)

export const extendLeases = (tx: Transaction, items: ReadonlyArray<Extension>): ReadonlyArray<ExtendOutcome> =>
  items.map(({ jobId, leaseDurationMs, token }) => {
    const job = tx.get(stateById, { id: jobId })
    const extended =
      job && applyEvent(stateOf(job), { event: "extended", token, leaseDurationMs: Math.ceil(leaseDurationMs) }, tx.now)
    if (job === undefined || extended?.claimableAt == null) return { _tag: "LeaseLost" }
    const { claimableAt, deadlineAt, phaseStartedAt, ranMs } = extended
    if (tx.run(moveLease, { id: jobId, token, claimableAt, deadlineAt, phaseStartedAt, ranMs }) === 0)
      return { _tag: "LeaseLost" }
    // If the lease had ended, a claim may have recorded that the lane has nothing to come.
    mayBeClaimableAt(tx, job.laneId, claimableAt)
    // After the run limit no lease is granted.
    return { _tag: "Extended", leaseRemainingMs: Math.max(0, claimableAt - tx.now) }
  })

type Step = Values<"jobs", "id" | "token"> & Values<"checkpoints", "step" | "value">

/** Selects the job's row, so the step is written only while the fence holds. A repeated step replaces its value. */
const keepStep = statement((given: Given<Step>) =>
  query
    .insertInto("checkpoints")
    .columns(["job_seq", "step", "value"])
    .expression(
      query
        .selectFrom("jobs")
        .select(["seq", sql<string>`${given.step}`.as("step"), sql<string>`${given.value}`.as("value")])
        .where("id", "=", given.id)
        .where("status", "=", "processing")
        .where("held", "=", 1)
        .where("token", "=", given.token),
    )
    .onConflict((conflict) =>
      conflict.columns(["job_seq", "step"]).doUpdateSet((set) => ({ value: set.ref("excluded.value") })),
    ),
)

export const checkpointJobs = (tx: Transaction, items: ReadonlyArray<Checkpoint>): ReadonlyArray<FencedOutcome> =>
  items.map(({ jobId: id, step, token, value }) =>
    tx.run(keepStep, { id, token, step, value: JSON.stringify(value) }) === 1 ? "Written" : "LeaseLost",
  )

const heldJob = statement((given: Given<Values<"jobs", "id" | "token">>) =>
  query
    .selectFrom("jobs")
    .select("seq")
    .where("id", "=", given.id)
    .where("status", "=", "processing")
    .where("held", "=", 1)
    .where("token", "=", given.token),
)

const insertChunk = statement((given: Given<Values<"chunks", "job_seq" | "position" | "attempt" | "value">>) =>
  query
    .insertInto("chunks")
    .values(assign(given, "job_seq", "position", "attempt", "value"))
    .onConflict((conflict) => conflict.doNothing()),
)

export const appendChunks = (tx: Transaction, items: ReadonlyArray<ChunkWrite>): ReadonlyArray<FencedOutcome> =>
  items.map(({ attempt, first, jobId: id, token, values }) => {
    const job = tx.get(heldJob, { id, token })
    if (job === undefined) return "LeaseLost"
    for (const [place, value] of values.entries())
      tx.run(insertChunk, { jobSeq: job.seq, position: first + place, attempt, value: JSON.stringify(value) })
    return "Written"
  })

const jobStatus = statement((given: Given<Values<"jobs", "id">>) =>
  query.selectFrom("jobs").select(["seq", "status"]).where("id", "=", given.id),
)

const chunksFrom = statement((given: Given<Values<"chunks", "job_seq" | "position"> & { readonly limit: number }>) =>
  query
    .selectFrom("chunks")
    .select(select("chunks", "position", "attempt", "value"))
    .where("job_seq", "=", given.jobSeq)
    .where("position", ">=", given.position)
    .orderBy("position")
    .limit(given.limit),
)

export const readChunks = (
  tx: Transaction,
  items: ReadonlyArray<ChunkQuestion>,
): ReadonlyArray<ChunkPage | undefined> =>
  items.map(({ from, jobId: id, limit }) => {
    const job = tx.get(jobStatus, { id })
    if (job === undefined) return undefined
    const rows = tx.all(chunksFrom, { jobSeq: job.seq, position: from, limit })
    const chunks = rows.map(({ attempt, position, value }) => ({
      index: position,
      attempt,
      value: decodeJson(value, `a chunk of ${id}`),
    }))
    return { chunks, isFinished: isFinished(job) }
  })
