import { sql } from "kysely"
import { isFinished, type JobId } from "@kiln/core/domain"
import {
  applyEvent,
  areJobs,
  canonicalJson,
  isParked,
  maxSignals,
  type ParkedOn,
  rankOf,
  rescheduling,
  stepLabel,
} from "@kiln/core/rules"
import type { RescheduleOutcome, Rescheduling, SignalOutcome, SignalOwner, SignalRequest } from "@kiln/core/ports"
import { decodePriority } from "@kiln/sql-store"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"
import { assign, select, type Values } from "../columns.ts"
import { stateById, stateColumns, stateOf, type StateRow, writeState } from "./JobRow.ts"
import { addRank, mayBeClaimableAt } from "./lanes.ts"

const unfinishedChildren = statement((given: Given<Values<"job_labels", "label">>) =>
  query
    .selectFrom("job_labels")
    .innerJoin("jobs", "jobs.seq", "job_labels.job_seq")
    .select(sql<number>`count(*)`.as("count"))
    .where("job_labels.label", "=", given.label)
    .where("jobs.finished_at", "is", null),
)

/** The prerequisites are named by the labels of the job. */
export const unfinishedPrerequisites = statement((given: Given<Values<"job_labels", "job_seq">>) =>
  query
    .selectFrom("job_labels")
    .innerJoin("jobs", (join) => join.on("jobs.id", "=", sql<JobId>`substr(${sql.ref("job_labels.label")}, 2)`))
    .select(sql<number>`count(*)`.as("count"))
    .where("job_labels.job_seq", "=", given.jobSeq)
    .where(sql<string>`substr(${sql.ref("job_labels.label")}, 1, 1)`, "=", "~")
    .where("jobs.finished_at", "is", null),
)

const signalByName = statement((given: Given<Values<"signals", "job_seq" | "name">>) =>
  query.selectFrom("signals").select("value").where("job_seq", "=", given.jobSeq).where("name", "=", given.name),
)

/** What a parking needs to know of its event. */
interface EventState {
  readonly hasCome: boolean
  readonly unfinished: number
}

export const eventState = (tx: Transaction, { id, seq }: StateRow, { reason, subject }: ParkedOn): EventState => {
  if (reason === "signal")
    return { hasCome: tx.get(signalByName, { jobSeq: seq, name: subject }) !== undefined, unfinished: 0 }
  if (!areJobs({ reason })) return { hasCome: false, unfinished: 0 }
  const row =
    reason === "after"
      ? tx.get(unfinishedPrerequisites, { jobSeq: seq })
      : tx.get(unfinishedChildren, { label: stepLabel({ jobId: id, step: subject }) })
  const unfinished = row?.count ?? 0
  return { hasCome: unfinished === 0, unfinished }
}

/** What a job is, or was, parked on. */
const parkedBySeq = statement((given: Given<Values<"parked", "job_seq">>) =>
  query
    .selectFrom("parked")
    .select(select("parked", "token", "reason", "subject"))
    .where("job_seq", "=", given.jobSeq),
)

const signaledJob = statement((given: Given<Values<"jobs", "id">>) =>
  query
    .selectFrom("jobs")
    .select(stateColumns)
    .select(select("jobs", "project_id", "key_id"))
    .where("id", "=", given.id),
)

const countSignals = statement((given: Given<Values<"signals", "job_seq">>) =>
  query
    .selectFrom("signals")
    .select(sql<number>`count(*)`.as("count"))
    .where("job_seq", "=", given.jobSeq),
)

const insertSignal = statement((given: Given<Values<"signals", "job_seq" | "name" | "value" | "at">>) =>
  query.insertInto("signals").values(assign(given, "job_seq", "name", "value", "at")),
)

const isOf = (owner: SignalOwner | undefined, job: Values<"jobs", "project_id" | "key_id" | "mode">): boolean =>
  owner === undefined ||
  (owner.projectId === job.projectId &&
    (owner.keyId ?? job.keyId) === job.keyId &&
    (owner.mode ?? job.mode) === job.mode)

/** Makes the job claimable, if it is parked on this signal. */
const wake = (tx: Transaction, job: StateRow, name: string): void => {
  const parked = tx.get(parkedBySeq, { jobSeq: job.seq })
  const state = stateOf(job)
  if (!isParked(parked, state) || parked.reason !== "signal" || parked.subject !== name) return
  const woken = applyEvent(state, { event: "woken" }, tx.now)
  if (woken === undefined) return
  if (!writeState(tx, job, woken)) throw new TypeError(`${job.id} cannot be woken`)
  mayBeClaimableAt(tx, job.laneId, tx.now)
}

/** Keeps signals, the first value of each name. A finished job recognizes a repeat as long as its data is kept. */
export const signalJobs = (tx: Transaction, items: ReadonlyArray<SignalRequest>): ReadonlyArray<SignalOutcome> =>
  items.map(({ jobId: id, name, owner, value }) => {
    const job = tx.get(signaledJob, { id })
    if (job === undefined || !isOf(owner, job)) return "NotFound"
    const jobSeq = job.seq
    const text = canonicalJson(value)
    const first = tx.get(signalByName, { jobSeq, name })
    if (first !== undefined) return first.value === text ? "Repeated" : "Superseded"
    if (isFinished(job)) return "Finished"
    if ((tx.get(countSignals, { jobSeq })?.count ?? 0) >= maxSignals) return "Full"
    tx.run(insertSignal, { jobSeq, name, value: text, at: tx.now })
    wake(tx, job, name)
    return "Accepted"
  })

const priorityBySeq = statement((given: Given<Values<"jobs", "seq">>) =>
  query.selectFrom("jobs").select("priority").where("seq", "=", given.seq),
)

/** The schema allows it only while the job waits. */
const updatePriority = statement((given: Given<Values<"jobs", "seq" | "priority">>) =>
  query.updateTable("jobs").set(assign(given, "priority")).where("seq", "=", given.seq),
)

/** Changes when waiting jobs may be claimed, and their priority. */
export const rescheduleJobs = (tx: Transaction, items: ReadonlyArray<Rescheduling>): ReadonlyArray<RescheduleOutcome> =>
  items.map((item) => {
    const id = item.jobId
    const job = tx.get(stateById, { id })
    if (job === undefined) return "NotFound"
    const { laneId, seq } = job
    const state = stateOf(job)
    const priority = decodePriority(tx.get(priorityBySeq, { seq })?.priority ?? NaN, id)
    const parked = isParked(tx.get(parkedBySeq, { jobSeq: seq }), state)
    const decided = rescheduling({ ...state, priority }, parked, item, tx.now)
    if (typeof decided === "string") return decided
    if (decided.priority !== priority) {
      tx.run(updatePriority, { seq, priority: rankOf(decided.priority) })
      addRank(tx, laneId, rankOf(decided.priority))
    }
    const { state: moved } = decided
    if (moved === undefined) return "Rescheduled"
    if (!writeState(tx, job, moved)) throw new TypeError(`${id} cannot be rescheduled`)
    if (moved.claimableAt !== null) mayBeClaimableAt(tx, laneId, moved.claimableAt)
    return "Rescheduled"
  })
