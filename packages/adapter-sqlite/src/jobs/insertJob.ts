import { type OnConflictBuilder, sql } from "kysely"
import type { Job } from "@kiln/core/domain"
import { judgeJob, keylessKey, keylessPrefix, labelsOf, rankOf } from "@kiln/core/rules"
import type { CreateOutcome, NewJob } from "@kiln/core/ports"
import { decodeObject, submittedNames } from "@kiln/sql-store"
import { assign, type Tables, type Values } from "../columns.ts"
import { compiled, type Given, query, statement } from "../Statement.ts"
import { storedTime, type Transaction } from "../Transaction.ts"
import { keptBytes } from "../uploads.ts"
import { type CountedProjects, hasRoom, type Room } from "./CountedProjects.ts"
import { isIndexedKey } from "./JobRow.ts"
import { knowsRank } from "./lanes.ts"

/**
 * Maximum length of a request in the row of its job. Its row then fits on a page, and creating the job writes no other row. A longer
 * one would be rewritten with every move of the job.
 */
const maxRequestInRow = 500

const times = [
  "created_at",
  "queue_limit_ms",
  "run_limit_ms",
  "claimable_at",
  "deadline_at",
  "phase_started_at",
] as const
const columns = ["id", ...submittedNames, "price_id", ...times, "request"] as const

type NewRow = Values<"jobs", (typeof columns)[number]>

/** The columns that are the same for every new job. */
const initial = {
  status: "queued",
  token: 0,
  held: 0,
  ran_ms: 0,
  waited_ms: 0,
  attempts: 0,
  failures: 0,
  lost_workers: 0,
} as const

const keyIsTaken = (conflict: OnConflictBuilder<Tables, "jobs">) =>
  conflict.columns(["key_id", "idempotency_key"]).where(isIndexedKey).doNothing()

/** A repeated creation whose key names its own job. Comes after `keyIsTaken`. */
const idIsTaken = sql`on conflict ("id") do nothing`

/**
 * Whether the idempotency key is one that only another job of that id can have. The index does not have it, so the insertion would not
 * find that job.
 */
export const namesAnotherJob = ({ id, idempotencyKey }: Pick<NewJob, "id" | "idempotencyKey">): boolean =>
  idempotencyKey.startsWith(keylessPrefix) && idempotencyKey !== keylessKey(id)

const insertRow = statement((given: Given<NewRow & Values<"jobs", "lane_id">>) =>
  query
    .insertInto("jobs")
    .values({ ...assign(given, "lane_id", ...columns), ...initial })
    .onConflict(keyIsTaken)
    .modifyEnd(idIsTaken),
)

export const insertData = statement((given: Given<Values<"job_data", "job_seq" | "request">>) =>
  query.insertInto("job_data").values(assign(given, "job_seq", "request")),
)

/**
 * Inserts a job where nothing else has to be written or decided: its lane exists, knows its priority and is not waiting for a later
 * job, the project is below its cap, and store time is not ahead of this process. Otherwise inserts nothing.
 */
export const insertAtOnce = statement((given: Given<NewRow & Room>) => {
  const values = { ...assign(given, ...columns), ...initial }
  const names = Object.keys(values) as ReadonlyArray<keyof typeof values>
  return query
    .insertInto("jobs")
    .columns(["lane_id", ...names])
    .expression(
      query
        .selectFrom("lanes")
        .select(["lanes.id", ...names.map((name) => sql`${values[name]}`.as(name))])
        .where("project_id", "=", given.projectId)
        .where("kind", "=", given.kind)
        .where("kind_version", "=", given.kindVersion)
        .where("mode", "=", given.mode)
        .where("next_at", "<=", given.claimableAt)
        .where(knowsRank(given))
        .where(sql<boolean>`${given.createdAt} >= (${sql.raw(compiled(storedTime).sql)})`)
        .where(hasRoom(given)),
    )
    .onConflict(keyIsTaken)
    .modifyEnd(idIsTaken)
})

/** Returns the job as later reads will, with its JSON decoded again. */
interface Insertion {
  readonly row: NewRow
  readonly longRequest: string | null
  readonly job: Job
}

export const insertionOf = (job: Job, priceId: number | null): Insertion => {
  const claimableAt = job.claimableAt ?? job.createdAt
  const kept = JSON.stringify(job.metadata)
  const request = JSON.stringify(job.request)
  const isLong = request.length > maxRequestInRow
  return {
    row: {
      id: job.id,
      projectId: job.projectId,
      keyId: job.keyId,
      mode: job.mode,
      kind: job.kind,
      kindVersion: job.kindVersion,
      priority: rankOf(job.priority),
      kept,
      uploadId: job.uploadId,
      idempotencyKey: job.idempotencyKey,
      fingerprint: job.fingerprint,
      priceId,
      createdAt: job.createdAt,
      queueLimitMs: job.queueLimitMs,
      runLimitMs: job.runLimitMs,
      claimableAt,
      deadlineAt: job.deadlineAt ?? claimableAt,
      phaseStartedAt: claimableAt,
      request: isLong ? null : request,
    },
    longRequest: isLong ? request : null,
    job: { ...job, metadata: decodeObject(kept, job.id), request: decodeObject(request, job.id) },
  }
}

/** An inserted job, with the number of its row. */
export interface Inserted {
  readonly job: Job
  readonly seq: number
}

/** Writes an accepted job. Returns `undefined`, and nothing was written, if the idempotency key has a job. */
export const insertJob = (
  tx: Transaction,
  accepted: Job,
  laneId: number,
  priceId: number | null,
): Inserted | undefined => {
  const { job, longRequest, row } = insertionOf(accepted, priceId)
  const seq = tx.insert(insertRow, { ...row, laneId })
  if (seq === undefined) return undefined
  tx.noteStoredTime()
  if (longRequest !== null) tx.run(insertData, { jobSeq: seq, request: longRequest })
  return { job, seq }
}

/**
 * Creates a single job in one statement, as most are created: without gate, upload and retry. Returns `undefined`, and nothing was
 * written, if the job needs more than that or is not accepted.
 */
export const createAtOnce = (
  tx: Transaction,
  item: NewJob,
  counted: CountedProjects,
): ReadonlyArray<CreateOutcome> | undefined => {
  if (
    item.tick !== undefined ||
    item.gate !== null ||
    item.uploadId !== null ||
    item.retryOf !== null ||
    item.unique !== undefined
  )
    return undefined
  if (labelsOf(item.metadata).length > 0 || namesAnotherJob(item)) return undefined
  const outcome = judgeJob(item, {
    now: tx.now,
    scheduleVersion: () => undefined,
    existing: () => undefined,
    scopeHolder: () => undefined,
    retried: () => undefined,
    board: neverAsked,
    upload: () => undefined,
    spending: neverAsked,
    kept: () => keptBytes(tx, item.projectId, item.mode),
    unfinished: () => 0,
  })
  if (outcome._tag !== "Created") return undefined
  const { job, longRequest, row } = insertionOf(outcome.job, null)
  const room = longRequest === null ? counted.roomFor(tx, item) : undefined
  const seq = room && tx.insert(insertAtOnce, { ...row, ...room })
  if (seq === undefined) return undefined
  counted.noteNewest(seq)
  return [{ _tag: "Created", job }]
}

const neverAsked = (): never => {
  throw new TypeError("a job without a gate does not ask for the board or for caps")
}
