import { type Job, type JobFacts, judgeJob, priorityRank, type ProjectId, type UploadId } from "@kiln/core/domain"
import { type CreateOutcome, decodeObject, type NewJob } from "@kiln/core/ports"
import { loadBoard, type StoredBoard } from "../board.ts"
import { assign, type Values } from "../columns.ts"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"
import { ownUpload, uploadOf } from "../uploads.ts"
import { ownJob } from "./eraseJobs.ts"
import { jobByIdempotencyKey, jobOf } from "./JobRow.ts"
import { createLane, findLane, type LaneRow, mayBeClaimableAt, prioritizeLane } from "./lanes.ts"

/** The unfinished jobs of a project, counted up to the cap in the index that claims use. The cross join reads its lanes first. */
export const unfinishedJobs = statement((given: Given<Values<"lanes", "project_id"> & { readonly cap: number }>) =>
  query
    .selectFrom((from) =>
      from
        .selectFrom("lanes")
        .crossJoin("jobs")
        .select("jobs.lane_id")
        .where("lanes.project_id", "=", given.projectId)
        .whereRef("jobs.lane_id", "=", "lanes.id")
        .where("jobs.held", "in", [0, 1])
        .where("jobs.claimable_at", "is not", null)
        .limit(given.cap)
        .as("unfinished"),
    )
    .select((of) => of.fn.countAll<number>().as("count")),
)

/** Frees the upload of a failed job for its retry. The schema allows only this change to what was requested. */
const releaseUploadOf = statement((given: Given<Values<"jobs", "id">>) =>
  query.updateTable("jobs").set({ upload_id: null }).where("id", "=", given.id),
)

type NewRow =
  | "id"
  | "lane_id"
  | "project_id"
  | "key_id"
  | "mode"
  | "kind"
  | "kind_version"
  | "priority"
  | "kept"
  | "upload_id"
  | "idempotency_key"
  | "fingerprint"
  | "price_id"
  | "created_at"
  | "queue_limit_ms"
  | "run_limit_ms"
  | "claimable_at"
  | "deadline_at"
  | "phase_started_at"
  | "request"

const insertRow = statement((given: Given<Values<"jobs", NewRow>>) =>
  query
    .insertInto("jobs")
    .values({
      ...assign(given, "id", "lane_id", "project_id", "key_id", "mode", "kind", "kind_version", "priority", "kept"),
      ...assign(given, "upload_id", "idempotency_key", "fingerprint", "price_id", "created_at", "queue_limit_ms"),
      ...assign(given, "run_limit_ms", "claimable_at", "deadline_at", "phase_started_at", "request"),
      status: "queued",
      token: 0,
      held: 0,
      ran_ms: 0,
      waited_ms: 0,
      attempts: 0,
      failures: 0,
      lost_workers: 0,
    })
    .onConflict((conflict) => conflict.columns(["key_id", "idempotency_key"]).doNothing()),
)

/**
 * Maximum length of a request in the row of its job. Its row then fits on a page, and creating the job writes no other row. A longer
 * one would be rewritten with every move of the job.
 */
const maxRequestInRow = 500

const insertData = statement((given: Given<Values<"job_data", "job_seq" | "request">>) =>
  query.insertInto("job_data").values(assign(given, "job_seq", "request")),
)

/** The insertion of the job consumed the upload; this removes it from the index of the sweep. */
const leaveSweep = statement((given: Given<{ readonly uploadId: UploadId }>) =>
  query.updateTable("uploads").set({ sweep_at: null }).where("id", "=", given.uploadId),
)

/** Items earlier in the batch count for later ones. */
export const createJobs = (tx: Transaction, items: ReadonlyArray<NewJob>): ReadonlyArray<CreateOutcome> => {
  const batch = new CreateBatch(tx, items)
  return items.map((item) => batch.create(item))
}

/** One call of `createJobs`. What its items share is read once and kept up to date. */
class CreateBatch {
  readonly #tx: Transaction
  readonly #cap: number
  readonly #unfinished = new Map<ProjectId, number>()
  readonly #lanes = new Map<string, LaneRow>()
  #board: StoredBoard | undefined

  constructor(tx: Transaction, items: ReadonlyArray<NewJob>) {
    this.#tx = tx
    this.#cap = items.reduce((highest, item) => Math.max(highest, item.queueCap), 0)
  }

  /**
   * Most idempotency keys are new, so the job is first judged as if its key were, and the unique index of the insertion finds
   * the others. Any other outcome is judged again with the lookup, which comes first in the order of precedence. A retry and
   * the first job of a lane write before the insertion, and so begin with the lookup.
   */
  create(item: NewJob): CreateOutcome {
    const lane = this.#laneOf(item)
    if (item.retryOf === null && lane !== undefined) {
      const outcome = judgeJob(
        item,
        this.#factsOf(item, () => undefined),
      )
      const job = outcome._tag === "Created" ? this.#insert(item, outcome.job, lane) : undefined
      if (job !== undefined) return { _tag: "Created", job }
    }
    const outcome = judgeJob(
      item,
      this.#factsOf(item, () => findByIdempotencyKey(this.#tx, item)),
    )
    if (outcome._tag !== "Created") return outcome
    if (item.retryOf !== null && item.uploadId !== null) this.#tx.run(releaseUploadOf, { id: item.retryOf })
    const job = this.#insert(item, outcome.job, lane ?? this.#newLane(outcome.job))
    if (job === undefined) throw new TypeError(`${item.id} was not inserted`)
    return { _tag: "Created", job }
  }

  #factsOf(item: NewJob, existing: () => Job | undefined): JobFacts {
    const { keyId, mode, projectId, retryOf, uploadId } = item
    const tx = this.#tx
    return {
      now: tx.now,
      existing,
      retried: () => (retryOf === null ? undefined : tx.get(ownJob, { id: retryOf, projectId, keyId, mode })),
      board: () => (this.#board ??= loadBoard(tx)),
      upload: () => {
        const row = uploadId === null ? undefined : tx.get(ownUpload, { id: uploadId, projectId, keyId, mode })
        return row && uploadOf(row)
      },
      unfinished: () => this.#unfinishedOf(projectId),
    }
  }

  #unfinishedOf(projectId: ProjectId): number {
    const known = this.#unfinished.get(projectId)
    if (known !== undefined) return known
    const count = this.#tx.get(unfinishedJobs, { projectId, cap: this.#cap })?.count ?? 0
    this.#unfinished.set(projectId, count)
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

  /**
   * Writes an accepted job. Returns it as later reads will, with its JSON decoded again, or `undefined`, and nothing was written,
   * if the idempotency key has a job.
   */
  #insert(item: NewJob, job: Job, lane: LaneRow): Job | undefined {
    const { id, uploadId } = job
    const { price } = item.gate ?? { price: null }
    const claimableAt = job.claimableAt ?? job.createdAt
    const kept = JSON.stringify(job.kept)
    const request = JSON.stringify(job.request)
    const inRow = request.length <= maxRequestInRow
    const seq = this.#tx.insert(insertRow, {
      id,
      laneId: lane.id,
      projectId: job.projectId,
      keyId: job.keyId,
      mode: job.mode,
      kind: job.kind,
      kindVersion: job.kindVersion,
      priority: priorityRank[job.priority],
      kept,
      uploadId,
      idempotencyKey: job.idempotencyKey,
      fingerprint: job.fingerprint,
      priceId: price === null ? null : (this.#board?.stored[price]?.id ?? null),
      createdAt: job.createdAt,
      queueLimitMs: job.queueLimitMs,
      runLimitMs: job.runLimitMs,
      claimableAt,
      deadlineAt: job.deadlineAt ?? claimableAt,
      phaseStartedAt: claimableAt,
      request: inRow ? request : null,
    })
    if (seq === undefined) return undefined
    this.#tx.noteStoredTime()
    if (!inRow) this.#tx.run(insertData, { jobSeq: seq, request })
    if (uploadId !== null) this.#tx.run(leaveSweep, { uploadId })
    this.#enter(lane, job, claimableAt)
    const unfinished = this.#unfinished.get(job.projectId)
    if (unfinished !== undefined) this.#unfinished.set(job.projectId, unfinished + 1)
    return { ...job, kept: decodeObject(kept, id), request: decodeObject(request, id) }
  }

  /** Updates the lane where the new job changes something. */
  #enter(lane: LaneRow, job: Job, claimableAt: number): void {
    const prioritizes = job.priority !== "normal" && lane.prioritized === 0
    const isEarlier = lane.nextAt === null || lane.nextAt > claimableAt
    if (!prioritizes && !isEarlier) return
    if (prioritizes) prioritizeLane(this.#tx, lane.id)
    if (isEarlier) mayBeClaimableAt(this.#tx, lane.id, claimableAt)
    this.#lanes.set(nameOf(job), {
      id: lane.id,
      nextAt: isEarlier ? claimableAt : lane.nextAt,
      prioritized: prioritizes ? 1 : lane.prioritized,
    })
  }
}

const nameOf = ({ kind, kindVersion, mode, projectId }: NewJob | Job): string =>
  `${mode} ${projectId} ${kindVersion} ${kind}`

/** A key binds one job per idempotency key. */
export const findByIdempotencyKey = (
  tx: Transaction,
  { idempotencyKey, keyId }: Values<"jobs", "key_id" | "idempotency_key">,
): Job | undefined => {
  const row = tx.get(jobByIdempotencyKey, { keyId, idempotencyKey })
  return row && jobOf(tx, row)
}
