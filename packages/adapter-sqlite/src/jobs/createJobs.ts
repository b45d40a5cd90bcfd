import type { Job, JobId, ProjectId, UploadId } from "@kiln/core/domain"
import {
  advanceAfter,
  type BoundKey,
  type JobFacts,
  judgeJob,
  keylessPrefix,
  labelsOf,
  maximumCostOf,
  rankOf,
} from "@kiln/core/rules"
import type { CreateOutcome, NewJob } from "@kiln/core/ports"
import { type StoredBoard, uploadOf, writeSchedule } from "@kiln/sql-store"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"
import { loadBoard } from "../board.ts"
import { assign, type Values } from "../columns.ts"
import { readSpending, reserve, unreserve } from "../spending.ts"
import { runIn } from "../transactionsOf.ts"
import { keptBytes, ownUpload } from "../uploads.ts"
import { CountedProjects } from "./CountedProjects.ts"
import { jobByIdempotencyKey, jobByKeylessKey, jobBySeq, jobOf, selectJobs, stateById } from "./JobRow.ts"
import { insertData, insertionOf, insertJob, namesAnotherJob } from "./insertJob.ts"
import { addRank, bitOf, createLane, findLane, type LaneRow, mayBeClaimableAt } from "./lanes.ts"
import { ownJob } from "./retention.ts"

const insertLabel = statement((given: Given<Values<"job_labels", "label" | "job_seq">>) =>
  query.insertInto("job_labels").values(assign(given, "label", "job_seq")),
)

const takeScope = statement((given: Given<Values<"job_scopes", "scope" | "job_seq">>) =>
  query
    .insertInto("job_scopes")
    .values(assign(given, "scope", "job_seq"))
    .onConflict((conflict) => conflict.column("scope").doUpdateSet({ job_seq: given.jobSeq })),
)

/** A retry takes over the scope of the failed job, if that still has it. */
const inheritScope = statement((given: Given<Values<"job_scopes", "job_seq"> & { readonly failed: JobId }>) =>
  query
    .updateTable("job_scopes")
    .set({ job_seq: given.jobSeq })
    .where("job_seq", "=", query.selectFrom("jobs").select("seq").where("id", "=", given.failed)),
)

const scopeHolder = statement((given: Given<Values<"job_scopes", "scope">>) =>
  selectJobs.where(
    "jobs.seq",
    "=",
    query.selectFrom("job_scopes").select("job_scopes.job_seq").where("scope", "=", given.scope),
  ),
)

/** The job that took a scope last. */
const findScopeHolder = (tx: Transaction, unique: NewJob["unique"]): Job | undefined => {
  const row = unique && tx.get(scopeHolder, { scope: unique.scope })
  return row && jobOf(tx, row)
}

/** Writes what a new job is found by, besides its id and its key. */
const writeLabels = (
  tx: Transaction,
  jobSeq: number,
  { metadata }: Job,
  { retryOf, unique }: { readonly retryOf: JobId | null; readonly unique?: NewJob["unique"] },
): void => {
  for (const label of labelsOf(metadata)) tx.run(insertLabel, { label, jobSeq })
  if (unique !== undefined) tx.run(takeScope, { scope: unique.scope, jobSeq })
  if (retryOf !== null) tx.run(inheritScope, { jobSeq, failed: retryOf })
}

const requested = [
  "kind_version",
  "priority",
  "kept",
  "upload_id",
  "idempotency_key",
  "fingerprint",
  "price_id",
] as const
const times = [
  "queue_limit_ms",
  "run_limit_ms",
  "claimable_at",
  "deadline_at",
  "phase_started_at",
  "waited_ms",
] as const
const replacedColumns = ["lane_id", ...requested, ...times, "request"] as const

/** The upload before is in the sweep's way again: a trigger writes that. */
const updateRequest = statement((given: Given<Values<"jobs", "seq" | (typeof replacedColumns)[number]>>) =>
  query
    .updateTable("jobs")
    .set(assign(given, ...replacedColumns))
    .where("seq", "=", given.seq)
    .where("status", "=", "queued"),
)

const deleteData = statement((given: Given<Values<"job_data", "job_seq">>) =>
  query.deleteFrom("job_data").where("job_seq", "=", given.jobSeq),
)

const deleteLabels = statement((given: Given<Values<"job_labels", "job_seq">>) =>
  query.deleteFrom("job_labels").where("job_seq", "=", given.jobSeq),
)

const insertKey = statement(
  (given: Given<Values<"replaced_keys", "key_id" | "idempotency_key" | "fingerprint" | "job_seq">>) =>
    query.insertInto("replaced_keys").values(assign(given, "key_id", "idempotency_key", "fingerprint", "job_seq")),
)

const replacedKey = statement((given: Given<Values<"replaced_keys", "key_id" | "idempotency_key">>) =>
  query
    .selectFrom("replaced_keys")
    .select(["job_seq as jobSeq", "fingerprint"])
    .where("key_id", "=", given.keyId)
    .where("idempotency_key", "=", given.idempotencyKey),
)

/** Writes the new request of a waiting job, and keeps the key that a caller gave to the one before. Returns the job as later reads will. */
const replaceJob = (tx: Transaction, before: Job, judged: Job, laneId: number, priceId: number | null): Job => {
  const { fingerprint, id, idempotencyKey, keyId } = before
  const seq = tx.get(stateById, { id })?.seq
  if (seq === undefined) throw new TypeError(`${id} does not exist`)
  const { job, longRequest, row } = insertionOf(judged, priceId)
  if (!idempotencyKey.startsWith(keylessPrefix)) tx.run(insertKey, { keyId, idempotencyKey, fingerprint, jobSeq: seq })
  tx.run(deleteData, { jobSeq: seq })
  if (tx.run(updateRequest, { ...row, seq, laneId, waitedMs: job.waitedMs }) !== 1)
    throw new TypeError(`${id} cannot get another request`)
  if (longRequest !== null) tx.run(insertData, { jobSeq: seq, request: longRequest })
  tx.run(deleteLabels, { jobSeq: seq })
  for (const label of labelsOf(job.metadata)) tx.run(insertLabel, { label, jobSeq: seq })
  return job
}

/** Returns the job that an idempotency key is bound to, by its request or by one that was replaced. */
export const findBoundKey = (
  tx: Transaction,
  { idempotencyKey, keyId }: Pick<NewJob, "idempotencyKey" | "keyId">,
): BoundKey | undefined => {
  const key = { keyId, idempotencyKey }
  const row =
    tx.get(jobByIdempotencyKey, key) ??
    (idempotencyKey.startsWith(keylessPrefix) ? tx.get(jobByKeylessKey, key) : undefined)
  if (row !== undefined) return { job: jobOf(tx, row), fingerprint: row.fingerprint }
  const former = tx.get(replacedKey, key)
  const its = former && tx.get(jobBySeq, { seq: former.jobSeq })
  return its && { job: jobOf(tx, its), fingerprint: former.fingerprint }
}

const knownSchedule = statement((given: Given<Values<"schedules", "name">>) =>
  query.selectFrom("schedules").select("version").where("name", "=", given.name),
)

/** Frees the upload of a failed job for its retry. The schema allows only this change to what was requested. */
const releaseUploadOf = statement((given: Given<Values<"jobs", "id">>) =>
  query.updateTable("jobs").set({ upload_id: null }).where("id", "=", given.id),
)

/** The insertion of the job consumed the upload; this removes it from the index of the sweep. */
const leaveSweep = statement((given: Given<{ readonly uploadId: UploadId }>) =>
  query.updateTable("uploads").set({ sweep_at: null }).where("id", "=", given.uploadId),
)

/** Items earlier in the batch count for later ones. `counted`: what the process has counted of projects before. */
export const createJobs = (
  tx: Transaction,
  items: ReadonlyArray<NewJob>,
  counted = new CountedProjects(),
): ReadonlyArray<CreateOutcome> => {
  const batch = new CreateBatch(tx, counted)
  return items.map((item) => batch.create(item))
}

/** One call of `createJobs`. What its items share is read once and kept up to date. */
class CreateBatch {
  readonly #tx: Transaction
  readonly #counted: CountedProjects
  readonly #unfinished = new Map<ProjectId, { readonly most: number; readonly fullAt: number }>()
  readonly #lanes = new Map<string, LaneRow>()
  #board: StoredBoard | undefined

  constructor(tx: Transaction, counted: CountedProjects) {
    this.#tx = tx
    this.#counted = counted
  }

  /**
   * Most idempotency keys are new, so the job is first judged as if its key were, and the unique index of the insertion finds
   * the others. Any other outcome is judged again with the lookup, which comes first in the order of precedence. A retry and
   * the first job of a lane write before the insertion, and so begin with the lookup, as does a key that names another job.
   */
  create(item: NewJob): CreateOutcome {
    const outcome = this.#create(item)
    const { tick } = item
    const advanced = tick && advanceAfter(tick, outcome)
    if (tick !== undefined && advanced !== undefined)
      runIn(this.#tx, (common) => writeSchedule(common, tick.name, tick.version, advanced))
    return outcome
  }

  #create(item: NewJob): CreateOutcome {
    const lane = this.#laneOf(item)
    if (item.retryOf === null && lane !== undefined && !namesAnotherJob(item) && item.unique?.replaces !== true) {
      const outcome = judgeJob(
        item,
        this.#factsOf(item, () => undefined),
      )
      const job = outcome._tag === "Created" ? this.#insert(item, outcome.job, lane) : undefined
      if (job !== undefined) return { _tag: "Created", job }
    }
    const outcome = judgeJob(
      item,
      this.#factsOf(item, () => findBoundKey(this.#tx, item)),
    )
    if (outcome._tag === "Replaced")
      return { _tag: "Replaced", job: this.#replace(item, outcome.job, lane ?? this.#newLane(outcome.job)) }
    if (outcome._tag !== "Created") return outcome
    if (item.retryOf !== null && item.uploadId !== null) this.#tx.run(releaseUploadOf, { id: item.retryOf })
    const job = this.#insert(item, outcome.job, lane ?? this.#newLane(outcome.job))
    if (job === undefined) throw new TypeError(`${item.id} was not inserted`)
    return { _tag: "Created", job }
  }

  #factsOf(item: NewJob, existing: JobFacts["existing"]): JobFacts {
    const { keyId, mode, projectId, retryOf, uploadId } = item
    const tx = this.#tx
    return {
      now: tx.now,
      scheduleVersion: () => item.tick && tx.get(knownSchedule, { name: item.tick.name })?.version,
      existing,
      scopeHolder: () => findScopeHolder(tx, item.unique),
      retried: () => (retryOf === null ? undefined : tx.get(ownJob, { id: retryOf, projectId, keyId, mode })),
      board: () => (this.#board ??= loadBoard(tx)),
      upload: () => {
        const row = uploadId === null ? undefined : tx.get(ownUpload, { id: uploadId, projectId, keyId, mode })
        return row && uploadOf(row)
      },
      spending: (replaced) => readSpending(tx, [keyId, projectId], replaced),
      kept: () => keptBytes(tx, projectId, mode),
      unfinished: () => this.#unfinishedOf(item),
    }
  }

  /** Returns an upper bound while that is below the cap of this item. Jobs that are counted are counted once for all items of a full project. */
  #unfinishedOf({ projectId, queueCap }: NewJob): number {
    const { most = Infinity, fullAt = 0 } = this.#unfinished.get(projectId) ?? {}
    if (queueCap <= fullAt) return queueCap
    if (most < queueCap) return most
    const count = this.#counted.unfinished(this.#tx, projectId, queueCap)
    this.#unfinished.set(projectId, count < queueCap ? { most: count, fullAt } : { most, fullAt: queueCap })
    return count
  }

  #laneOf(item: NewJob): LaneRow | undefined {
    const name = nameOf(item)
    const known = this.#lanes.get(name) ?? findLane(this.#tx, item)
    if (known !== undefined) this.#lanes.set(name, known)
    return known
  }

  #newLane(job: Job): LaneRow {
    const lane = createLane(this.#tx, job)
    this.#lanes.set(nameOf(job), lane)
    return lane
  }

  /** Writes an accepted job. Returns `undefined`, and nothing was written, if the idempotency key has a job. */
  #insert(item: NewJob, accepted: Job, lane: LaneRow): Job | undefined {
    const inserted = insertJob(this.#tx, accepted, lane.id, this.#priceIdOf(item))
    if (inserted === undefined) return undefined
    const { job, seq } = inserted
    writeLabels(this.#tx, seq, job, item)
    this.#reserve(item, job)
    if (job.uploadId !== null) this.#tx.run(leaveSweep, { uploadId: job.uploadId })
    this.#enter(lane, job, job.claimableAt ?? job.createdAt)
    const unfinished = this.#unfinished.get(job.projectId)
    if (unfinished !== undefined) this.#unfinished.set(job.projectId, { ...unfinished, most: unfinished.most + 1 })
    return job
  }

  /** Writes the new request of a job that waits in this lane from now on. */
  #replace(item: NewJob, accepted: Job, lane: LaneRow): Job {
    const before = findScopeHolder(this.#tx, item.unique)
    if (before === undefined) throw new TypeError(`${accepted.id} does not exist`)
    const job = replaceJob(this.#tx, before, accepted, lane.id, this.#priceIdOf(item))
    unreserve(this.#tx, job.id)
    this.#reserve(item, job)
    if (job.uploadId !== null) this.#tx.run(leaveSweep, { uploadId: job.uploadId })
    this.#enter(lane, job, job.claimableAt ?? job.createdAt)
    return job
  }

  #priceIdOf({ gate }: NewJob): number | null {
    return gate === null || gate.price === null ? null : (this.#board?.stored[gate.price]?.id ?? null)
  }

  #reserve(item: NewJob, { id: jobId, keyId, price, projectId }: Job): void {
    const amount = price === null ? undefined : maximumCostOf(item, price)
    if (price === null || amount === undefined) return
    reserve(this.#tx, [keyId, projectId], { jobId, currency: price.currency, amount })
  }

  /** Updates the lane where the new job changes something. */
  #enter(lane: LaneRow, job: Job, claimableAt: number): void {
    const rank = rankOf(job.priority)
    const isNewRank = (lane.ranks & bitOf(rank)) === 0
    const isEarlier = lane.nextAt === null || lane.nextAt > claimableAt
    if (!isNewRank && !isEarlier) return
    if (isNewRank) addRank(this.#tx, lane.id, rank)
    if (isEarlier) mayBeClaimableAt(this.#tx, lane.id, claimableAt)
    this.#lanes.set(nameOf(job), {
      id: lane.id,
      nextAt: isEarlier ? claimableAt : lane.nextAt,
      ranks: lane.ranks | bitOf(rank),
    })
  }
}

const nameOf = ({ kind, kindVersion, mode, projectId }: NewJob | Job): string =>
  `${mode} ${projectId} ${kindVersion} ${kind}`
